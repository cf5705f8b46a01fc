-- Sites and the keys that write to and read from them. Every key names its site
-- in clear, so that it is found by the site's id: unique keys lead with that.

-- +goose Up
create table sites (
    id            uuid primary key,
    name          text        not null check (char_length(name) between 1 and 100),
    domain        text        not null check (char_length(domain) between 1 and 253),
    timezone      text        not null default 'UTC',
    site_key      text        not null,
    -- Salts of days older than 48 h are derived from it; null once destroyed.
    import_secret bytea,
    created_at    timestamptz not null,
    updated_at    timestamptz not null
);

create table site_api_keys (
    site_id      uuid        not null references sites (id),
    id           uuid        not null,
    name         text        not null check (char_length(name) between 1 and 100),
    scope        text        not null check (scope in ('read', 'ingest')),
    prefix       text        not null,
    key_sha256   bytea       not null,
    created_at   timestamptz not null,
    expires_at   timestamptz,
    revoked_at   timestamptz,
    last_used_at timestamptz,
    primary key (site_id, id),
    unique (site_id, key_sha256)
);

-- For keys that an operator chose, which name no site. Not unique: the tables
-- shard by site, and then only a key that holds the site can be.
create index sites_site_key on sites (site_key);
create index site_api_keys_sha256 on site_api_keys (key_sha256);

grant select, insert, update, delete on sites, site_api_keys to waypost_app;

-- +goose Down
drop table site_api_keys;
drop table sites;
