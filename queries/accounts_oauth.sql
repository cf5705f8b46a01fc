-- name: InsertOAuthFlow :exec
insert into oauth_flows (state_sha256, provider, browser_sha256, return_url, code_challenge, created_at, expires_at)
values (@state_sha256, @provider, @browser_sha256, @return_url, @code_challenge, @now, @expires_at);

-- name: SpendOAuthFlow :one
-- The claim on a provider's answer: its state, from the browser that left with
-- it, at the callback of the provider that it went to.
delete from oauth_flows
where state_sha256 = @state_sha256 and provider = @provider and browser_sha256 = @browser_sha256 and expires_at > @now
returning *;

-- name: InsertOAuthCode :exec
insert into oauth_codes (code_sha256, code_challenge, provider, subject, email, email_verified, first_name, last_name, created_at, expires_at)
values (@code_sha256, @code_challenge, @provider, @subject, @email, @email_verified, @first_name, @last_name, @now, @expires_at);

-- name: SpendOAuthCode :one
delete from oauth_codes where code_sha256 = @code_sha256 and code_challenge = @code_challenge and expires_at > @now
returning *;

-- name: HasAccountFor :one
-- Whether an identity is linked, or an account has its address.
select (exists (select from identities where provider = @provider and subject = @subject)
    or exists (select from users where email_key = @email_key))::bool as known;

-- name: DeleteStaleOAuthFlows :execrows
delete from oauth_flows where expires_at <= $1;

-- name: DeleteStaleOAuthCodes :execrows
delete from oauth_codes where expires_at <= $1;

-- name: UseIdentity :one
update identities set last_used_at = @now, email = @email where provider = @provider and subject = @subject returning *;

-- name: InsertIdentity :one
-- No row when somebody has it already.
insert into identities (user_id, provider, subject, email, created_at, last_used_at)
values (@user_id, @provider, @subject, @email, @now, @now)
on conflict (provider, subject) do nothing
returning *;

-- name: ListIdentities :many
select * from identities where user_id = $1 order by created_at desc, id desc;

-- name: DeleteIdentity :one
-- The provider.
delete from identities where id = @id and user_id = @user_id returning provider;

-- name: CountIdentities :one
select count(*) from identities where user_id = $1;

-- name: DeleteUserIdentities :exec
delete from identities where user_id = $1;

-- name: LockUserByEmailKey :one
select * from users where email_key = $1 and email_key not like 'service:%' for update;

-- name: InsertOAuthUser :one
-- No row when somebody has the address already.
insert into users (first_name, last_name, email, email_key, email_verified_at, password_hash, role, active, created_at, updated_at)
values (@first_name, @last_name, @email, @email_key, @email_verified_at, '', 'USER', true, @now, @now)
on conflict (email_key) do nothing
returning *;

-- name: ClaimUnverifiedUser :one
-- The owner of the address takes over an account that somebody made with it.
update users set password_hash = '', email_verified_at = @now, updated_at = @now
where id = @id and email_verified_at is null
returning *;
