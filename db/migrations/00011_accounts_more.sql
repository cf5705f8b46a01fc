-- Accounts whole: verified addresses, sessions that can be listed, refresh tokens
-- with generations, links sent by mail, API tokens for bots, throttles, and
-- signing keys that rotate.

-- +goose Up

-- password_hash is '' for an account that has no password (yet).
alter table users add column email_verified_at timestamptz;

-- methods are how it was opened (RFC 8176's words); authenticated_at is when its
-- holder last proved who he is.
alter table auth_sessions add column methods text[] not null default '{}';
alter table auth_sessions add column authenticated_at timestamptz;
alter table auth_sessions add column last_used_at timestamptz;
alter table auth_sessions add column address text not null default '';
alter table auth_sessions add column user_agent text not null default '';
update auth_sessions set authenticated_at = created_at, last_used_at = created_at;
alter table auth_sessions alter column authenticated_at set not null;
alter table auth_sessions alter column last_used_at set not null;
create index auth_sessions_expiry on auth_sessions (expires_at);

-- The first token of a session has generation 1, each successor one more.
alter table refresh_tokens add column generation integer not null default 1;

-- The secret of a link: good once, until expires_at, and for as long as the
-- account has the address that the link was sent to.
create table mail_tokens (
    token_sha256 bytea primary key,
    user_id      bigint      not null references users (id) on delete cascade,
    purpose      text        not null check (purpose in ('verify_email', 'reset_password')),
    email_key    text        not null,
    created_at   timestamptz not null,
    expires_at   timestamptz not null,
    used_at      timestamptz
);
create index mail_tokens_user on mail_tokens (user_id, purpose);

-- A bot's credential; prefix is the part of it that may be shown.
create table api_tokens (
    id           bigint generated always as identity primary key,
    user_id      bigint      not null references users (id) on delete cascade,
    name         text        not null check (char_length(name) between 1 and 100),
    prefix       text        not null,
    token_sha256 bytea       not null,
    scopes       text[]      not null check (cardinality(scopes) > 0),
    created_at   timestamptz not null,
    expires_at   timestamptz,
    last_used_at timestamptz,
    revoked_at   timestamptz,
    constraint api_tokens_secret unique (token_sha256)
);
create index api_tokens_user on api_tokens (user_id, id desc);

-- How often something happened of late, by limit and by whom. It is no business
-- record: losing a row forgives a few failures.
create table throttles (
    name          text        not null,
    subject       text        not null,
    count         integer     not null,
    blocked_until timestamptz,
    -- When the count is void and the row may go.
    forget_at     timestamptz not null,
    primary key (name, subject)
);
create index throttles_forget on throttles (forget_at);

-- A key is published from its creation on and signs from signs_from on, until a
-- newer one does; retires_at is null for the newest.
alter table signing_keys add column signs_from timestamptz;
update signing_keys set signs_from = created_at;
alter table signing_keys alter column signs_from set not null;

-- An account that is deleted on purpose takes what it wrote with it.
alter table posts drop constraint posts_author_id_fkey,
    add constraint posts_author_id_fkey foreign key (author_id) references users (id) on delete cascade;

grant delete on users, auth_sessions, refresh_tokens, signing_keys to waypost_app;
grant select, insert, update, delete on mail_tokens, api_tokens, throttles to waypost_app;

-- +goose Down
revoke delete on users, auth_sessions, refresh_tokens, signing_keys from waypost_app;
alter table posts drop constraint posts_author_id_fkey,
    add constraint posts_author_id_fkey foreign key (author_id) references users (id);
alter table signing_keys drop column signs_from;
drop table throttles, api_tokens, mail_tokens;
alter table refresh_tokens drop column generation;
drop index auth_sessions_expiry;
alter table auth_sessions drop column methods, drop column authenticated_at, drop column last_used_at,
    drop column address, drop column user_agent;
alter table users drop column email_verified_at;
