-- name: InsertPost :one
insert into posts (author_id, title, body, tags, created_at, updated_at)
values (@author_id, @title, @body, @tags, @now, @now)
returning *;
