-- name: InsertPageSession :exec
insert into page_sessions (session_id, cookie_sha256, ends_at) values (@session_id, @cookie_sha256, @ends_at);

-- name: FindPageSession :one
select s.id, s.expires_at, s.revoked_at, s.authenticated_at, s.last_used_at, p.ends_at, sqlc.embed(u)
from page_sessions p join auth_sessions s on s.id = p.session_id join users u on u.id = s.user_id
where p.cookie_sha256 = $1;

-- name: TouchPageSession :exec
-- Moves the session's end on, unless that was done since.
update auth_sessions set last_used_at = @now::timestamptz, expires_at = @expires_at::timestamptz
where id = @id and revoked_at is null and last_used_at <= @before::timestamptz;
