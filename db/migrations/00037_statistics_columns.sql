-- Filtered questions are answered from columns: the sessions and events of a sealed day,
-- packed dimension by dimension, and those of each folded visitor of an open one.

-- +goose Up

-- The host of the page's address; null where the source of the event doesn't say it.
alter table events add column hostname text;
select show_columns('events', '{hostname}');

-- A block of a sealed day's sessions, one of its parts: see internal/stats/columns.
create table rollup_columns (
    site_id uuid    not null,
    day     date    not null,
    block   integer not null,
    part    text    collate "C" not null,
    packed  bytea   not null,
    primary key (site_id, part, day, block)
) with (toast_tuple_target = 8160); -- days of most sites stay in the row: one look-up less for each
-- Codes hardly compress, and what isn't compressed is read without work.
alter table rollup_columns alter column packed set storage external;
select show_columns('rollup_columns', '{site_id,day,block,part}', '{packed}');

-- Whether the columns of a sealed day are all there. Whoever unseals a day takes that
-- back, an older program too.
alter table site_days add column packed boolean not null default false;
select show_columns('site_days', '{packed}');
create index site_days_unpacked on site_days (ends_at) where state = 'sealed' and not packed;
-- +goose StatementBegin
create function site_days_unpack() returns trigger language plpgsql set search_path = public, pg_temp as $$
begin
    new.packed := false;
    return new;
end $$;
-- +goose StatementEnd
revoke execute on function site_days_unpack() from public;
create trigger site_days_unpack before update of state on site_days for each row
    when (new.state <> 'sealed') execute function site_days_unpack();

-- A folded visitor's sessions and events; null where an older program folded it.
alter table rollup_visitors add column sessions bytea;
select show_columns('rollup_visitors', '{}', '{sessions}');

-- The last day that goes on with which a label came: while it isn't null, nothing that
-- is sealed has the label, and it goes when that day is sealed without it.
alter table rollup_labels add column open_day date;
select show_columns('rollup_labels', '{open_day}');
create index rollup_labels_open_day on rollup_labels (site_id, open_day) where open_day is not null;

grant select, insert, update, delete on rollup_columns to waypost_app;

-- +goose Down
drop index rollup_labels_open_day;
alter table rollup_labels drop column open_day;
alter table rollup_visitors drop column sessions;
drop trigger site_days_unpack on site_days;
drop function site_days_unpack();
drop index site_days_unpacked;
alter table site_days drop column packed;
drop table rollup_columns;
alter table events drop column hostname;
delete from visible_columns where table_name = 'rollup_columns';
