-- Traffic. Every table and unique key leads with site_id, so that it shards by
-- site unchanged; and nothing here refers to another table, for the same reason.

-- +goose Up

-- A site's calendar: the bounds that a local day really had, the salt of its
-- visitor hashes (null once destroyed, and for days whose salt is derived from
-- the site's import secret), and whether rollups of it exist.
create table site_days (
    site_id   uuid        not null,
    day       date        not null,
    starts_at timestamptz not null,
    ends_at   timestamptz not null check (ends_at > starts_at),
    salt      bytea,
    state     text        not null default 'open' check (state in ('open', 'sealed', 'dirty')),
    primary key (site_id, day)
);
create index site_days_salt on site_days (ends_at) where salt is not null;

create sequence events_id_seq as bigint;
create sequence sessions_id_seq as bigint;

-- id breaks ties between a visitor's events of one instant, in order of arrival.
-- name is null for a pageview. props maps strings to strings.
create table events (
    site_id     uuid        not null,
    occurred_at timestamptz not null,
    id          bigint      not null default nextval('events_id_seq'),
    day         date        not null,
    visitor     bigint      not null,
    session_id  bigint      not null,
    path        text        not null,
    name        text,
    props       jsonb,
    primary key (site_id, occurred_at, id)
) partition by range (occurred_at);
create index events_session on events (site_id, day, session_id);

-- A visitor's events of one day with gaps of at most 30 minutes. Everything of
-- the first event is kept with its instant, so that an earlier event, arriving
-- late, takes its place, and two sessions that it joins become one.
create table sessions (
    site_id      uuid        not null,
    day          date        not null,
    id           bigint      not null,
    visitor      bigint      not null,
    started_at   timestamptz not null,
    last_at      timestamptz not null check (last_at >= started_at),
    pageviews    integer     not null,
    events       integer     not null,
    entry_at     timestamptz,
    entry_path   text,
    exit_at      timestamptz,
    exit_path    text,
    source       text        not null default '',
    utm_source   text        not null default '',
    utm_medium   text        not null default '',
    utm_campaign text        not null default '',
    utm_term     text        not null default '',
    utm_content  text        not null default '',
    country      text        not null default '',
    device       text        not null default '',
    browser      text        not null default '',
    os           text        not null default '',
    primary key (site_id, day, id)
) with (fillfactor = 80);
create index sessions_started on sessions (site_id, started_at);
create index sessions_visitor on sessions (site_id, day, visitor, started_at);

-- One row per visitor and day: the lock under which its sessions are assigned,
-- and the newest of them. edition counts the batches with events of the visitor
-- after the first; the former columns are what the last such batch met. Rows are
-- updated far more often than made, so pages keep room for that.
create table session_heads (
    site_id        uuid        not null,
    day            date        not null,
    visitor        bigint      not null,
    session_id     bigint      not null,
    last_at        timestamptz not null,
    edition        integer     not null default 0,
    former_session bigint,
    former_at      timestamptz,
    primary key (site_id, day, visitor)
) with (fillfactor = 60);

-- The import that may write: a newer one takes a site over by raising run, and
-- every batch of an import checks, under a lock of this row, that run is its own.
create table site_imports (
    site_id uuid   primary key,
    run     bigint not null
);

-- What was imported: a line by its SHA-256 and its ordinal among equal lines of
-- a file; and the last import that met it, so that an import can count the equal
-- lines behind it without keeping a file in memory.
create table imported_lines (
    site_id     uuid    not null,
    line_sha256 bytea   not null,
    ordinal     integer not null,
    run         bigint  not null,
    primary key (site_id, line_sha256, ordinal)
);

-- The application role owns nothing, so it asks for a month's partition. A
-- partition is made beside the table and attached, which blocks neither readers
-- nor writers of the other months.
-- +goose StatementBegin
create function ensure_events_month(instant timestamptz) returns void
    language plpgsql security definer set search_path = public, pg_temp set timezone = 'UTC' as $$
declare
    lower_bound timestamptz := date_trunc('month', instant);
    upper_bound timestamptz := date_trunc('month', instant) + interval '1 month';
    part        text := 'events_' || to_char(lower_bound, 'YYYY_MM');
begin
    if to_regclass(part) is not null then
        return;
    end if;
    perform pg_advisory_xact_lock(hashtext('ensure_events_month'));
    -- Who held the lock may have made it. Unlike to_regclass, which answers from
    -- a cache that waiting for a lock doesn't refresh, a query sees that.
    if exists (select from pg_class where relname = part and relnamespace = 'public'::regnamespace) then
        return;
    end if;
    execute format('create table %I (like events including defaults including constraints)', part);
    execute format('alter table events attach partition %I for values from (%L) to (%L)', part, lower_bound, upper_bound);
end $$;
-- +goose StatementEnd
revoke execute on function ensure_events_month(timestamptz) from public;
grant execute on function ensure_events_month(timestamptz) to waypost_app;

grant usage on sequence events_id_seq, sessions_id_seq to waypost_app;
grant select, insert, update, delete on site_days, events, sessions, session_heads, site_imports, imported_lines to waypost_app;

-- +goose Down
drop function ensure_events_month(timestamptz);
drop table imported_lines, site_imports, session_heads, sessions, events, site_days;
drop sequence sessions_id_seq, events_id_seq;
