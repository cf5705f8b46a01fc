-- name: InsertBlog :one
-- No row when the slug is taken.
insert into blogs (author_id, title, slug, excerpt, content, image, published, published_at, created_at, updated_at)
values (@author_id, @title, @slug, @excerpt, @content, @image, @published, case when @published::bool then @now::timestamptz end, @now, @now)
on conflict (slug) do nothing
returning *;

-- name: TakenSlugs :many
-- Those that are a slug with a number behind it.
select slug from blogs where slug like @numbered and slug ~ '-[0-9]+$';

-- name: FindBlog :one
-- By id, or by slug, whichever is not null.
select * from blogs
where (id = sqlc.narg('id') or slug = sqlc.narg('slug')) and (published or @drafts::bool);

-- name: BlogsByID :many
select * from blogs where id = any (@ids::bigint[]);

-- name: UpdateBlog :one
-- published_at stays what it first was.
update blogs set
    title = coalesce(sqlc.narg('title'), title),
    slug = coalesce(sqlc.narg('new_slug'), slug),
    excerpt = coalesce(sqlc.narg('excerpt'), excerpt),
    content = coalesce(sqlc.narg('content'), content),
    image = coalesce(sqlc.narg('image'), image),
    published = coalesce(sqlc.narg('published'), published),
    published_at = case when coalesce(sqlc.narg('published'), published) then coalesce(published_at, @now) else published_at end,
    updated_at = @now
where id = sqlc.narg('id') or slug = sqlc.narg('slug')
returning *;

-- name: DeleteBlog :execrows
delete from blogs where id = sqlc.narg('id') or slug = sqlc.narg('slug');

-- name: IndexBlog :exec
insert into blog_words (id, created_at, words) select @id::bigint, b.created_at, array_to_tsvector(@words::text[]) from blogs b where b.id = @id::bigint
on conflict (id) do update set words = excluded.words;

-- name: DueBlogs :many
-- Those whose words are not known, and that nobody else is reading.
select b.id, b.title, b.content as text from blog_words w join blogs b on b.id = w.id
where w.words is null order by w.id limit @batch for update of w skip locked;

-- name: CountDueBlogs :one
-- 1,000 stands for more.
select count(*) from (select from blog_words where words is null limit 1000) due;
