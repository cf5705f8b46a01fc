-- name: InsertUser :one
insert into users (first_name, last_name, email, email_key, password_hash, role, active, created_at, updated_at)
values (@first_name, @last_name, @email, @email_key, @password_hash, @role, @active, @now, @now)
returning *;

-- name: FindUserByID :one
select * from users where id = $1;

-- name: FindUserByEmailKey :one
select * from users where email_key = $1;

-- name: LockActiveAdmins :many
-- The lock under which the number of administrators may shrink. In order of id,
-- so that two demotions never wait for each other in a circle.
select email_key from users where role = 'ADMIN' and active order by id for update;

-- name: SetUserRole :one
update users set role = @role, updated_at = @now where email_key = @email_key returning *;

-- name: SetUserPassword :one
update users set password_hash = @password_hash, updated_at = @now where email_key = @email_key returning *;

-- name: RevokeUserSessions :exec
update auth_sessions set revoked_at = @now where user_id = @user_id and revoked_at is null;

-- name: InsertAuthSession :one
-- Only for an account that is still active and still has the password that was
-- checked: the share lock waits for a change of either that is under way.
insert into auth_sessions (id, user_id, created_at, expires_at)
select @id, u.id, @created_at, @expires_at from users u
where u.id = @user_id and u.active and u.password_hash = @password_hash
for share of u
returning id;

-- name: InsertRefreshToken :exec
insert into refresh_tokens (token_sha256, session_id, created_at) values ($1, $2, $3);

-- name: FindAuthSession :one
select s.expires_at, s.revoked_at, u.role, u.active
from auth_sessions s join users u on u.id = s.user_id
where s.id = $1 and s.user_id = $2;

-- name: InsertSigningKey :exec
insert into signing_keys (kid, public_key, private_key, wrapping_key_id, created_at)
values ($1, $2, $3, $4, $5)
on conflict ((retires_at is null)) where retires_at is null do nothing;

-- name: ListSigningKeys :many
-- The key that signs comes first.
select * from signing_keys
where retires_at is null or retires_at > @now::timestamptz
order by (retires_at is null) desc, created_at desc;

-- name: RewrapSigningKey :exec
update signing_keys set private_key = @private_key, wrapping_key_id = @wrapping_key_id
where kid = @kid and wrapping_key_id = @old_wrapping_key_id;
