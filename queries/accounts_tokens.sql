-- API tokens, of people and of service accounts.

-- name: InsertAPIToken :one
insert into api_tokens (user_id, name, prefix, token_sha256, scopes, allowed_networks, rate, created_at, expires_at)
values (@user_id, @name, @prefix, @token_sha256, @scopes, @allowed_networks, @rate, @now, @expires_at)
returning *;

-- name: CountAPITokens :one
select count(*) from api_tokens where user_id = $1 and revoked_at is null;

-- name: CountLiveAPITokens :one
-- Those that work now.
select count(*) from api_tokens where user_id = @user_id and revoked_at is null and (expires_at is null or expires_at > @now);

-- name: ListAPITokens :many
-- Newest first, from before_id down; 0 starts at the newest.
select * from api_tokens
where user_id = @user_id and revoked_at is null and (@before_id::bigint = 0 or id < @before_id)
order by id desc limit sqlc.arg('max_rows')::int;

-- name: RetireAPIToken :one
-- The claim of a rotation: the token ends at ends_at at the latest. It is returned with
-- the expiry that it had.
with old as (
    select o.id, o.expires_at from api_tokens o
    where o.id = @id and o.user_id = @user_id and o.revoked_at is null and o.replaced_at is null
    for update
)
update api_tokens t set replaced_at = @now, expires_at = least(t.expires_at, @ends_at::timestamptz)
from old where t.id = old.id
returning sqlc.embed(t), old.expires_at as had_expiry;

-- name: APITokenExists :one
select exists (select from api_tokens where id = @id and user_id = @user_id and revoked_at is null);

-- name: RevokeAPIToken :execrows
update api_tokens set revoked_at = @now where id = @id and user_id = @user_id and revoked_at is null;

-- name: RevokeUserAPITokens :exec
update api_tokens set revoked_at = @now where user_id = @user_id and revoked_at is null;

-- name: FindAPIToken :one
-- The token with one of the digests that its secret may have, and what its account may
-- do. Of a service account, the row of users says nothing.
select t.id, t.user_id, t.scopes, t.expires_at, t.last_used_at, t.revoked_at, t.allowed_networks, t.rate,
    (s.id is not null)::bool as is_service, coalesce(s.role, u.role)::text as role, coalesce(s.active, u.active)::bool as active
from api_tokens t join users u on u.id = t.user_id left join service_accounts s on s.id = t.user_id
where t.token_sha256 = any (@digests::bytea[]);

-- name: TouchAPIToken :exec
-- Notes a use. It waits for nobody: whoever holds the row notes one too.
update api_tokens set last_used_at = @now, last_address = @address
where id = (
    select t.id from api_tokens t
    where t.id = @id and (t.last_used_at is null or t.last_used_at <= @before)
    for update skip locked
);

-- name: DeleteStaleAPITokens :execrows
-- Tokens that were revoked or expired before.
delete from api_tokens where expires_at < @before::timestamptz or revoked_at < @before::timestamptz;

-- name: ClaimExpiringAPITokens :many
-- Tokens of service accounts that expire before soon, of which nobody was told yet.
update api_tokens t set expiry_told_at = @now
from service_accounts s
where s.id = t.user_id and t.id in (
    select c.id from api_tokens c join service_accounts a on a.id = c.user_id
    where a.active and c.revoked_at is null and c.replaced_at is null and c.expiry_told_at is null
      and c.expires_at > @now and c.expires_at <= @soon
    order by c.expires_at, c.id limit sqlc.arg('max_rows')::int
    for update of c skip locked
)
returning sqlc.embed(t), sqlc.embed(s);
