-- Sign-in through outside providers, and two-factor authentication.

-- +goose Up

-- Who somebody is elsewhere. The provider's subject alone says so; the address is
-- what the provider told last, for display.
create table identities (
    id           bigint generated always as identity primary key,
    user_id      bigint      not null references users (id) on delete cascade,
    provider     text        not null,
    subject      text        not null check (char_length(subject) between 1 and 255),
    email        text        not null,
    created_at   timestamptz not null,
    last_used_at timestamptz not null,
    constraint identities_provider_subject unique (provider, subject)
);
create index identities_user on identities (user_id);

-- A sign-in that went to a provider and has not come back. The PKCE verifier and
-- the nonce are derived from the browser's cookie and the state, so nothing here
-- helps to forge an answer. A row goes when its answer comes.
create table oauth_flows (
    state_sha256   bytea primary key,
    provider       text        not null,
    browser_sha256 bytea       not null,
    -- Where to send the outcome, and the S256 challenge of who may collect it;
    -- both null when the callback itself answers.
    return_url     text,
    code_challenge text,
    created_at     timestamptz not null,
    expires_at     timestamptz not null,
    check ((return_url is null) = (code_challenge is null))
);
create index oauth_flows_expiry on oauth_flows (expires_at);

-- An outcome that waits to be collected. A row goes when it is.
create table oauth_codes (
    code_sha256    bytea primary key,
    code_challenge text        not null,
    provider       text        not null,
    subject        text        not null,
    email          text        not null,
    email_verified boolean     not null,
    first_name     text        not null,
    last_name      text        not null,
    created_at     timestamptz not null,
    expires_at     timestamptz not null
);
create index oauth_codes_expiry on oauth_codes (expires_at);

-- A secret counts once a code of it was shown: confirmed_at. last_step is the
-- time step (RFC 6238) of the last code that was taken; none at or before it is.
create table totp_factors (
    user_id       bigint primary key references users (id) on delete cascade,
    secret        bytea       not null,
    secret_key_id text        not null,
    last_step     bigint      not null default 0,
    created_at    timestamptz not null,
    confirmed_at  timestamptz
);
comment on column totp_factors.secret is 'Sealed for the account''s id: 12 bytes of nonce, then AES-256-GCM';
create index totp_factors_key on totp_factors (secret_key_id);

create table recovery_codes (
    user_id     bigint not null references users (id) on delete cascade,
    code_sha256 bytea  not null,
    used_at     timestamptz,
    primary key (user_id, code_sha256)
);

grant select, insert, update, delete on identities, totp_factors, recovery_codes to waypost_app;
grant select, insert, delete on oauth_flows, oauth_codes to waypost_app;

-- +goose Down
drop table recovery_codes, totp_factors, oauth_codes, oauth_flows, identities;
