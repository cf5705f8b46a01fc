-- Accounts, their sign-in sessions, and the keys that sign access tokens.

-- +goose Up
create table users (
    id            bigint generated always as identity primary key,
    first_name    text        not null check (char_length(first_name) between 2 and 100),
    last_name     text        not null check (char_length(last_name) between 2 and 100),
    email         text        not null check (char_length(email) between 3 and 254),
    -- The address in lower case: what is unique about it.
    email_key     text        not null,
    password_hash text        not null,
    role          text        not null default 'USER' check (role in ('ADMIN', 'EDITOR', 'USER')),
    active        boolean     not null default true,
    created_at    timestamptz not null,
    updated_at    timestamptz not null,
    constraint users_email_key unique (email_key)
);
create index users_newest on users (created_at desc, id desc);

-- id is the access tokens' sid. All refresh tokens of a session are one family.
create table auth_sessions (
    id         uuid primary key,
    user_id    bigint      not null references users (id) on delete cascade,
    created_at timestamptz not null,
    expires_at timestamptz not null,
    revoked_at timestamptz
);
create index auth_sessions_user on auth_sessions (user_id);

-- A refresh token is spent by setting used_at where it is null. It lives as long
-- as its session.
create table refresh_tokens (
    token_sha256 bytea primary key,
    session_id   uuid        not null references auth_sessions (id) on delete cascade,
    created_at   timestamptz not null,
    used_at      timestamptz
);
create index refresh_tokens_session on refresh_tokens (session_id);

-- retires_at is null for the one key that signs; the others still verify until then.
create table signing_keys (
    kid             text primary key,
    public_key      bytea       not null,
    private_key     bytea       not null,
    wrapping_key_id text        not null,
    created_at      timestamptz not null,
    retires_at      timestamptz
);
comment on column signing_keys.public_key is 'SubjectPublicKeyInfo, DER';
comment on column signing_keys.private_key is 'PKCS #8, DER, encrypted: 12 bytes of nonce, then AES-256-GCM';
create unique index signing_keys_one_signs on signing_keys ((retires_at is null)) where retires_at is null;

grant select, insert, update on users, auth_sessions, refresh_tokens, signing_keys to waypost_app;

-- +goose Down
drop table signing_keys, refresh_tokens, auth_sessions, users;
