-- Sessions of the operator pages.

-- +goose Up
-- A session of the pages is a row of auth_sessions as every other, whose expires_at
-- moves on while somebody looks at pages, and never past ends_at. A cookie is known by
-- its digest.
create table page_sessions (
    session_id    uuid        primary key references auth_sessions (id) on delete cascade,
    cookie_sha256 bytea       not null unique,
    ends_at       timestamptz not null
);
select audit_cover('page_sessions', '{cookie_sha256}');
grant select, insert, update, delete on page_sessions to waypost_app;

-- When a session was used, and when it would end unused, is no entry of the log.
drop trigger audit_row on auth_sessions;
drop trigger audit_truncate on auth_sessions;
select audit_cover('auth_sessions', '{}', '{last_used_at,expires_at}');

-- +goose Down
drop trigger audit_row on auth_sessions;
drop trigger audit_truncate on auth_sessions;
select audit_cover('auth_sessions', '{}', '{last_used_at}');
drop table page_sessions;
