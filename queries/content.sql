-- name: InsertPost :one
insert into posts (author_id, title, body, tags, created_at, updated_at)
values (@author_id, @title, @body, @tags, @now, @now)
returning *;

-- name: FindPost :one
select * from posts where id = $1;

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
