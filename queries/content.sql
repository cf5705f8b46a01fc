-- name: InsertPost :one
insert into posts (author_id, title, body, tags, created_at, updated_at)
values (@author_id, @title, @body, @tags, @now, @now)
returning *;

-- name: FindPost :one
select * from posts where id = $1;

-- name: PostsByID :many
select * from posts where id = any (@ids::bigint[]);

-- name: UpdatePost :one
-- Only a post that the acting account may change: its own, or any.
update posts set
    title = coalesce(sqlc.narg('title'), title),
    body = coalesce(sqlc.narg('body'), body),
    tags = coalesce(sqlc.narg('tags')::text[], tags),
    updated_at = @now
where id = @id and (@anyones::bool or author_id = @actor_id)
returning *;

-- name: DeletePost :execrows
-- Only a post that the acting account may delete: its own, or any.
delete from posts where id = @id and (@anyones::bool or author_id = @actor_id);

-- name: PostExists :one
select exists (select from posts where id = $1);

-- name: IndexPost :exec
insert into post_words (id, created_at, words) select @id::bigint, p.created_at, array_to_tsvector(@words::text[]) from posts p where p.id = @id::bigint
on conflict (id) do update set words = excluded.words;

-- name: DuePosts :many
-- Those whose words are not known, and that nobody else is reading.
select p.id, p.title, p.body as text from post_words w join posts p on p.id = w.id
where w.words is null order by w.id limit @batch for update of w skip locked;

-- name: CountDuePosts :one
-- 1,000 stands for more.
select count(*) from (select from post_words where words is null limit 1000) due;
