-- name: InsertAuthSession :one
-- Only for an account that is still active and still has the password that was
-- checked: the lock waits for a change of either that is under way, and lets one of
-- the account's sign-ins at a time count its sessions.
insert into auth_sessions (id, user_id, created_at, expires_at, methods, authenticated_at, last_used_at, address, user_agent)
select @id, u.id, @now, @expires_at, @methods, @now, @now, @address, @user_agent from users u
where u.id = @user_id and u.active and u.password_hash = @password_hash
for no key update of u
returning id;

-- name: InsertRefreshToken :exec
insert into refresh_tokens (token_sha256, session_id, created_at, generation) values ($1, $2, $3, $4);

-- name: FindAuthSession :one
select s.expires_at, s.revoked_at, s.authenticated_at, u.role, u.active
from auth_sessions s join users u on u.id = s.user_id
where s.id = $1 and s.user_id = $2;

-- name: SignedInWith :one
-- Whether a session that is kept was opened from exactly that address with that program.
select exists (
    select 1 from auth_sessions where user_id = @user_id and address = @address and user_agent = @user_agent
)::bool;

-- name: ListSignInPlaces :many
-- From where and with what an account signed in, as far as its sessions are kept.
select address, user_agent from auth_sessions where user_id = @user_id
order by created_at desc limit sqlc.arg('max_rows')::int;

-- name: LockRefreshFamily :one
-- Locks a refresh token, then its session, and with it the family. What became of
-- the family's tokens is read after, by other statements: one that has waited for a
-- lock still sees the rows that it does not lock as they were before.
with token as materialized (
    select session_id from refresh_tokens where token_sha256 = $1 for no key update
)
select s.id from auth_sessions s join token t on t.session_id = s.id
for no key update of s;

-- name: SpendRefreshToken :one
-- The claim on a refresh token, which is void when another branch of its family
-- was used: a token of its generation or of a later one was spent.
update refresh_tokens r set used_at = @now
from auth_sessions s, users u
where r.token_sha256 = @token_sha256 and r.used_at is null
  and s.id = r.session_id and s.revoked_at is null and s.expires_at > @now
  and u.id = s.user_id and u.active
  and not exists (
      select 1 from refresh_tokens f
      where f.session_id = r.session_id and f.used_at is not null and f.generation >= r.generation
  )
returning r.session_id, r.generation, s.user_id;

-- name: FindRefreshToken :one
-- newest_spent is the generation of the family's youngest token that was spent.
select r.session_id, r.generation, r.used_at, s.user_id, s.revoked_at, s.expires_at, u.active,
    (select coalesce(max(f.generation), 0) from refresh_tokens f
     where f.session_id = r.session_id and f.used_at is not null)::int as newest_spent
from refresh_tokens r join auth_sessions s on s.id = r.session_id join users u on u.id = s.user_id
where r.token_sha256 = $1;

-- name: TouchAuthSession :exec
update auth_sessions set last_used_at = @now where id = @id;

-- name: ListAuthSessions :many
-- Those that still hold, newest first, from (before_at, before_id) down.
select * from auth_sessions
where user_id = @user_id and revoked_at is null and expires_at > @now
  and (sqlc.narg('before_at')::timestamptz is null or (created_at, id) < (sqlc.narg('before_at'), sqlc.narg('before_id')::uuid))
order by created_at desc, id desc limit sqlc.arg('max_rows')::int;

-- name: RevokeAuthSession :execrows
update auth_sessions set revoked_at = @now::timestamptz
where id = @id and user_id = @user_id and revoked_at is null and expires_at > @now;

-- name: RevokeUserSessions :execrows
update auth_sessions set revoked_at = @now::timestamptz where user_id = @user_id and revoked_at is null and expires_at > @now;

-- name: RevokeOtherSessions :execrows
update auth_sessions set revoked_at = @now::timestamptz
where user_id = @user_id and id <> @kept and revoked_at is null and expires_at > @now;

-- name: DeleteStaleSessions :execrows
-- Sessions, and with them their refresh tokens, that ended before.
delete from auth_sessions where expires_at < @before::timestamptz or revoked_at < @before::timestamptz;

-- name: MakeRoomForSession :exec
-- Ends the account's sessions that hold, besides one, but for the newest others, and
-- deletes those that ended before, but for the newest; of each at most so many at a time.
with ended as (
    update auth_sessions set revoked_at = @now::timestamptz
    where revoked_at is null and id in (
        select s.id from auth_sessions s
        where s.user_id = @user_id and s.revoked_at is null and s.expires_at > @now and s.id <> @kept
        order by s.created_at desc, s.id desc offset sqlc.arg('others')::int limit sqlc.arg('max_rows')::int
    )
)
delete from auth_sessions where id in (
    select s.id from auth_sessions s
    where s.user_id = @user_id and (s.revoked_at is not null or s.expires_at <= @now)
    order by s.created_at desc, s.id desc offset sqlc.arg('on_record')::int limit sqlc.arg('max_rows')::int
);

-- name: DeleteOldRefreshTokens :exec
-- Deletes a session's tokens of generations before.
delete from refresh_tokens where session_id = @session_id and generation < @generation;
