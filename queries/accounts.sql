-- name: InsertUser :one
insert into users (first_name, last_name, email, email_key, email_verified_at, password_hash, role, active, created_at, updated_at)
values (@first_name, @last_name, @email, @email_key, @email_verified_at, @password_hash, @role, @active, @now, @now)
returning *;

-- name: FindUserByID :one
-- A person, as everywhere here: the row of a service account is nobody's.
select * from users where id = $1 and email_key not like 'service:%';

-- name: LockUser :one
select * from users where id = $1 and email_key not like 'service:%' for update;

-- name: FindUserByEmailKey :one
select * from users where email_key = $1 and email_key not like 'service:%';

-- name: LockActiveAdmins :many
-- The lock under which the number of administrators may shrink. In order of id,
-- so that two demotions never wait for each other in a circle.
select id from users where role = 'ADMIN' and active order by id for update;

-- name: UpdateUser :one
update users set first_name = @first_name, last_name = @last_name, email = @email, email_key = @email_key,
    email_verified_at = @email_verified_at, role = @role, active = @active, updated_at = @now
where id = @id returning *;

-- name: DeleteUser :execrows
delete from users where id = $1 and email_key not like 'service:%';

-- name: SetUserPassword :one
update users set password_hash = @password_hash, updated_at = @now where id = @id returning *;

-- name: SetUserPasswordIf :one
-- Only while the account has the password that was checked.
update users set password_hash = @password_hash, updated_at = @now
where id = @id and password_hash = @checked_hash and active returning *;

-- name: VerifyUserEmail :exec
update users set email_verified_at = @now where id = @id and email_verified_at is null;

-- name: InsertMailToken :exec
insert into mail_tokens (token_sha256, user_id, purpose, email_key, created_at, expires_at)
values (@token_sha256, @user_id, @purpose, @email_key, @now, @expires_at);

-- name: SpendMailToken :one
-- The link is void once the account has another address, and one that verifies it once
-- it is verified.
update mail_tokens m set used_at = @now
from users u
where m.token_sha256 = @token_sha256 and m.purpose = @purpose and m.used_at is null and m.expires_at > @now
  and u.id = m.user_id and u.email_key = m.email_key and (m.purpose <> 'verify_email' or u.email_verified_at is null)
returning m.user_id;

-- name: PeekMailToken :one
-- Whether SpendMailToken would succeed now.
select m.user_id from mail_tokens m join users u on u.id = m.user_id and u.email_key = m.email_key
where m.token_sha256 = @token_sha256 and m.purpose = @purpose and m.used_at is null and m.expires_at > @now
  and (m.purpose <> 'verify_email' or u.email_verified_at is null);

-- name: VoidMailTokens :exec
update mail_tokens set used_at = @now where user_id = @user_id and purpose = @purpose and used_at is null;

-- name: DeleteStaleMailTokens :execrows
delete from mail_tokens where expires_at < $1;

-- name: InsertSigningKey :exec
insert into signing_keys (kid, public_key, private_key, wrapping_key_id, created_at, signs_from)
values ($1, $2, $3, $4, $5, $6)
on conflict ((retires_at is null)) where retires_at is null do nothing;

-- name: ListSigningKeys :many
-- Newest first.
select * from signing_keys
where retires_at is null or retires_at > @now::timestamptz
order by signs_from desc, created_at desc;

-- name: RetireSigningKey :execrows
-- Of several instances that rotate at once, one gets a row.
update signing_keys set retires_at = @retires_at where retires_at is null and created_at <= @made_before;

-- name: RetireAllSigningKeys :exec
update signing_keys set retires_at = @now where retires_at is null or retires_at > @now;

-- name: DeleteRetiredSigningKeys :execrows
delete from signing_keys where retires_at < $1;

-- name: RewrapSigningKey :exec
update signing_keys set private_key = @private_key, wrapping_key_id = @wrapping_key_id
where kid = @kid and wrapping_key_id = @old_wrapping_key_id;

-- name: CountAuthSessions :one
select count(*) from auth_sessions where user_id = $1 and revoked_at is null and expires_at > $2;
