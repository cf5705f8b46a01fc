-- What accounts write.

-- +goose Up
create table posts (
    id         bigint generated always as identity primary key,
    author_id  bigint      not null references users (id),
    title      text        not null check (char_length(title) between 1 and 200),
    body       text        not null check (char_length(body) between 1 and 100000),
    tags       text[]      not null default '{}' check (cardinality(tags) <= 10),
    created_at timestamptz not null,
    updated_at timestamptz not null
);
create index posts_newest on posts (created_at desc, id desc);
create index posts_author on posts (author_id, created_at desc, id desc);
create index posts_tags on posts using gin (tags);

grant select, insert on posts to waypost_app;

-- +goose Down
drop table posts;
