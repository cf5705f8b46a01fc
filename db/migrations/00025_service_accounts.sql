-- Service accounts, and API tokens that are rotated, bound to networks and to a rate.

-- +goose Up

-- An account of a bot. What it makes belongs to a row of users with the same id, as
-- with people. That row can do nothing: it is inactive, without a password, and its
-- key is no address that anybody could sign in with, be mailed at or register. So
-- programs that don't know of service accounts take it for somebody deactivated, and
-- never for an administrator. Its role and whether it is active are here.
create table service_accounts (
    id         bigint      primary key references users (id) on delete cascade,
    -- A reference, so that nobody gives the row another address.
    user_key   text        not null unique check (user_key like 'service:%')
                           references users (email_key) on update no action on delete cascade,
    name       text        not null check (char_length(name) between 1 and 100),
    role       text        not null check (role in ('ADMIN', 'EDITOR', 'USER')),
    active     boolean     not null,
    created_at timestamptz not null
);
create index service_accounts_newest on service_accounts (created_at desc, id desc);
select audit_cover('service_accounts');

alter table users add constraint users_of_services check (
    email_key not like 'service:%'
    or email = email_key and password_hash = '' and email_verified_at is null and role = 'USER' and not active
);

-- token_sha256 of a token with networks or a rate is of more than the secret, so that
-- programs that would not hold it to them don't find it.
alter table api_tokens
    add column last_address     text    not null default '',
    add column allowed_networks text[]  not null default '{}',
    add column rate             integer check (rate > 0), -- requests a minute; null for no limit
    add column replaced_at      timestamptz, -- when a rotation made its successor
    add column expiry_told_at   timestamptz; -- when the administrators were told that it will expire
create index api_tokens_expiry on api_tokens (expires_at) where expires_at is not null;
create index api_tokens_revoked on api_tokens (revoked_at) where revoked_at is not null;
drop trigger audit_row on api_tokens;
drop trigger audit_truncate on api_tokens;
select audit_cover('api_tokens', '{token_sha256}', '{last_used_at,last_address,expiry_told_at}');

grant select, insert, update, delete on service_accounts to waypost_app;

-- +goose Down
drop trigger audit_row on api_tokens;
drop trigger audit_truncate on api_tokens;
select audit_cover('api_tokens', '{token_sha256}', '{last_used_at}');
drop index api_tokens_expiry, api_tokens_revoked;
alter table api_tokens drop column last_address, drop column allowed_networks, drop column rate,
    drop column replaced_at, drop column expiry_told_at;
select set_config('waypost.actor_type', 'system', true), set_config('waypost.action', 'system:migration 25', true);
delete from users where email_key like 'service:%';
alter table users drop constraint users_of_services;
drop table service_accounts;
