-- Rollups of site days. A visitor's hash lasts one site day, so every number of a
-- day is a sum over its visitors, and every number of a range a sum over its days.

-- +goose Up

-- The lock under which a site's rollups are written, how often it was taken, and
-- the last label's id.
create table rollup_sites (
    site_id    uuid   primary key,
    generation bigint not null default 0,
    last_label bigint not null default 0
);

-- A day's totals. Of a sealed day they are final; of an open day they are of the
-- visitors that are folded so far (session_heads.stale is false).
create table rollup_days (
    site_id     uuid        not null,
    day         date        not null,
    first_at    timestamptz not null, -- of the events counted
    last_at     timestamptz not null,
    pageviews   bigint      not null,
    visitors    bigint      not null,
    sessions    bigint      not null,
    bounces     bigint      not null,
    duration_us bigint      not null,
    primary key (site_id, day)
);

create table rollup_hours (
    site_id   uuid        not null,
    day       date        not null,
    starts_at timestamptz not null,
    pageviews bigint      not null,
    visitors  bigint      not null,
    primary key (site_id, day, starts_at)
);

-- What a rollup's label ids stand for. value is empty but for properties, whose
-- label is the key. The digest is SHA-256 of both, since a text may be longer
-- than an index takes. Ids are never reused; 0 is (other) and has no row.
create table rollup_labels (
    site_id uuid   not null,
    id      bigint not null,
    digest  bytea  not null,
    label   text   not null,
    value   text   not null,
    primary key (site_id, id),
    unique (site_id, digest)
);

-- The labels of a dimension over 4^level days from first_day on, packed: see
-- internal/stats/rollup_counts.go. Level 0 is a day. part is 0, but of dimension
-- prop the label id of the event's name.
create table rollup_counts (
    site_id   uuid     not null,
    dimension text     not null,
    part      bigint   not null,
    level     smallint not null,
    first_day date     not null,
    counts    bytea    not null,
    primary key (site_id, dimension, part, level, first_day)
);
-- Varints don't compress, and what isn't compressed is read without work.
alter table rollup_counts alter column counts set storage external;
create index rollup_counts_first_day on rollup_counts (site_id, first_day, level);

-- The blocks of 4^level days, level > 0, that hold all sealed days in them.
create table rollup_blocks (
    site_id   uuid     not null,
    level     smallint not null,
    first_day date     not null,
    primary key (site_id, first_day, level)
);

-- What each folded visitor of an open day adds to that day's rollups, so that it
-- can be taken out again when the visitor returns. Empty once the day is sealed.
create table rollup_visitors (
    site_id uuid   not null,
    day     date   not null,
    visitor bigint not null,
    portion bytea  not null,
    primary key (site_id, day, visitor)
);

-- Whether the visitor did something since it was folded into the day's rollups.
-- Folding locks nobody out: by the edition it sees whether there was something
-- meanwhile.
alter table session_heads add column stale boolean not null default true;
create index session_heads_stale on session_heads (site_id, day, visitor) where stale;

-- Days to be sealed.
create index site_days_unsealed on site_days (ends_at) where state <> 'sealed';

grant select, insert, update, delete on rollup_sites, rollup_days, rollup_hours, rollup_labels, rollup_counts,
    rollup_blocks, rollup_visitors to waypost_app;

-- +goose Down
drop index site_days_unsealed, session_heads_stale;
alter table session_heads drop column stale;
drop table rollup_visitors, rollup_blocks, rollup_counts, rollup_labels, rollup_hours, rollup_days, rollup_sites;
