-- Files that accounts upload. Their bytes are in a directory or a bucket; here is what
-- is known of them.

-- +goose Up

-- A row is pending while its bytes come, and ready once they are durable. Only the
-- bytes of ready rows are served.
create table uploads (
    id           bigint generated always as identity primary key,
    owner_id     bigint      not null references users (id) on delete cascade,
    filename     text        not null check (char_length(filename) between 1 and 255),
    content_type text        not null,           -- while it is pending, what its sender says
    size         bigint      not null check (size >= 0),
    sha256       bytea       check (octet_length(sha256) = 32), -- while it is pending, what its sender says
    status       text        not null default 'pending' check (status in ('pending', 'ready')),
    width        integer     check (width > 0),
    height       integer     check (height > 0),
    -- backend is the store that has the bytes, under key; those that a signed address
    -- brings lie under staging_key until they were looked at.
    backend      text        not null,
    key          text        not null unique,
    staging_key  text        unique,
    -- held is what the row takes of its owner's quota, in bytes.
    held         bigint      not null check (held >= 0),
    -- expires_at is when a pending row is given up, claimed_until when another may
    -- look at bytes that came by a signed address.
    expires_at    timestamptz,
    claimed_until timestamptz,
    thumbnail_key  text unique,
    thumbnail_type text,
    created_at   timestamptz not null,
    updated_at   timestamptz not null,
    check (status = 'pending' and expires_at is not null or status = 'ready' and sha256 is not null and held = size and staging_key is null and expires_at is null),
    check ((thumbnail_key is null) = (thumbnail_type is null))
);
create index uploads_newest on uploads (owner_id, created_at desc, id desc);
create index uploads_size on uploads (owner_id, size, id);
create index uploads_name on uploads (owner_id, filename, id);
create index uploads_pending on uploads (expires_at) where status = 'pending';

-- What each account's rows hold together. It is changed in the transaction that
-- changes them.
create table upload_usage (
    owner_id bigint primary key references users (id) on delete cascade,
    bytes    bigint not null check (bytes >= 0)
);

-- Where the bytes lie is changed without anything else while they are looked at.
select audit_cover('uploads', '{}', '{key,claimed_until,held,thumbnail_key,thumbnail_type}');
insert into audit_excluded (pattern, reason) values ('upload\_usage', 'counters');

grant select, insert, update, delete on uploads, upload_usage to waypost_app;

-- +goose Down
drop table upload_usage;
drop table uploads;
delete from audit_excluded where pattern = 'upload\_usage';
