-- Blogs, orders of lists, and the words of posts and blogs for searching.

-- +goose Up
create table blogs (
    id           bigint generated always as identity primary key,
    author_id    bigint      not null references users (id) on delete cascade,
    title        text        not null check (char_length(title) between 1 and 200),
    slug         text collate "C" not null check (char_length(slug) between 1 and 200 and slug ~ '^[a-z0-9]+(-[a-z0-9]+)*$' and slug !~ '^[0-9]+$'),
    excerpt      text        not null default '' check (char_length(excerpt) <= 500),
    content      text        not null check (char_length(content) between 1 and 500000),
    image        text        not null default '',
    published    boolean     not null default false,
    published_at timestamptz, -- when it first was; a draft may have one from before
    created_at   timestamptz not null,
    updated_at   timestamptz not null,
    constraint blogs_published check (published_at is not null or not published)
);
create unique index blogs_slug on blogs (slug);
create index blogs_newest on blogs (created_at desc, id desc);
create index blogs_newest_published on blogs (published, created_at desc, id desc);
create index blogs_author on blogs (author_id, created_at desc, id desc);
create index blogs_title on blogs (title, id);
create index blogs_title_published on blogs (published, title, id);
grant select, insert, update, delete on blogs to waypost_app;
select audit_cover('blogs');

create index posts_title on posts (title, id);
create index posts_author_title on posts (author_id, title, id);
create index users_last_name on users (last_name, id);

-- The words of each row's title and text, as the service normalises them; null until
-- they are known. A row that is read to be held against words is read in place, so the
-- words stay in it; created_at, which never changes, is here as well, so that the newest
-- are read without their texts.
create table post_words (
    id         bigint primary key references posts (id) on delete cascade,
    created_at timestamptz not null,
    words      tsvector
);
create table blog_words (
    id         bigint primary key references blogs (id) on delete cascade,
    created_at timestamptz not null,
    words      tsvector
);
alter table post_words alter column words set storage main;
alter table blog_words alter column words set storage main;
-- Without fastupdate no search pays for a list of what was written lately.
create index post_words_words on post_words using gin (words) with (fastupdate = off);
create index blog_words_words on blog_words using gin (words) with (fastupdate = off);
create index post_words_newest on post_words (created_at desc, id desc);
create index blog_words_newest on blog_words (created_at desc, id desc);
create index post_words_due on post_words (id) where words is null;
create index blog_words_due on blog_words (id) where words is null;
grant select, insert, update, delete on post_words, blog_words to waypost_app;
insert into audit_excluded (pattern, reason) values
    ('post\_words', 'made from posts'),
    ('blog\_words', 'made from blogs');

-- Whoever writes a text and not its words (an older program, psql) leaves them due:
-- they are not those of the text unless the same transaction wrote both.
-- +goose StatementBegin
create function words_due() returns trigger language plpgsql set search_path = public, pg_temp as $$
begin
    execute format('insert into %1$I as w (id, created_at) select id, created_at from %2$I where id = $1
        on conflict (id) do update set words = null where w.xmin <> pg_current_xact_id()::xid', tg_argv[0], tg_table_name) using new.id;
    return null;
end $$;
-- +goose StatementEnd
create constraint trigger words_due_new after insert on posts
    deferrable initially deferred for each row execute function words_due('post_words');
create constraint trigger words_due after update of title, body on posts
    deferrable initially deferred for each row when (row(old.title, old.body) is distinct from row(new.title, new.body)) execute function words_due('post_words');
create constraint trigger words_due_new after insert on blogs
    deferrable initially deferred for each row execute function words_due('blog_words');
create constraint trigger words_due after update of title, content on blogs
    deferrable initially deferred for each row when (row(old.title, old.content) is distinct from row(new.title, new.content)) execute function words_due('blog_words');

-- What was written before is indexed by the service, in the background.
insert into post_words (id, created_at) select id, created_at from posts;

-- +goose Down
drop trigger words_due on posts;
drop trigger words_due_new on posts;
drop table blog_words, post_words, blogs;
drop function words_due();
delete from audit_excluded where pattern in ('post\_words', 'blog\_words');
drop index posts_title, posts_author_title, users_last_name;
