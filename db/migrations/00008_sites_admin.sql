-- Administration of sites: changes of zone, what was not counted, which reported
-- events are known, and deletion.

-- +goose Up

-- A deleted site is invisible at once; a job erases its data and then this row.
alter table sites add column deleted_at timestamptz;
create index sites_deleted on sites (deleted_at) where deleted_at is not null;
-- False spares a look into site_zones: few sites ever move.
alter table sites add column has_zone_history boolean not null default false;

-- In which zone a site's days are, from an instant on, which is a midnight of the
-- zone before. The first row of a site is at the beginning of time (year 1); a
-- site that never changed its zone has none.
create table site_zones (
    site_id        uuid        not null references sites (id),
    effective_from timestamptz not null,
    timezone       text        not null,
    primary key (site_id, effective_from)
);

-- Hits that were not counted, by the site's day and the reason.
create table site_drops (
    site_id uuid   not null,
    day     date   not null,
    reason  text   not null,
    count   bigint not null,
    primary key (site_id, day, reason)
);

-- Events that a server reported under an id of its own: the first 16 bytes of
-- the id's SHA-256, so that the ids, which may say something about a person, are
-- not kept.
create table reported_events (
    site_id      uuid  not null,
    event_digest bytea not null,
    primary key (site_id, event_digest)
);

grant select, insert, update, delete on site_zones, site_drops, reported_events to waypost_app;

-- +goose Down
drop table reported_events, site_drops, site_zones;
alter table sites drop column has_zone_history, drop column deleted_at;
