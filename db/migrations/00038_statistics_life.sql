-- The life of what statistics are made of: salts and import secrets that are stored
-- encrypted, imports that can be undone, and raw data that ends.
--
-- Programs of before read salts from a column that is empty from now on: they would give
-- a day's visitors other numbers, or refuse hits. So they no longer serve.

-- +goose Up
-- A migration is no change that somebody made: migrate up says what it applied.
alter table installation disable trigger audit_row;
update installation set compatible_from = 38;
alter table installation enable always trigger audit_row;

-- For how many months before the current one raw data stays: null as the instance has it,
-- 0 for ever.
alter table sites add column retention_months integer check (retention_months between 0 and 1200);
select show_columns('sites', '{retention_months}');

-- The salt is sealed (package seal); what is plain, of a program of before, is sealed at
-- the start of this one. trimmed: some of the day's raw data is gone or going, so that it
-- is never counted anew. sealed_at is null of days that were sealed before this column.
alter table site_days
    add column salt_key  text,
    add column salt_box  bytea,
    add column sealed_at timestamptz,
    add column trimmed   boolean not null default false,
    add constraint site_days_trimmed check (not trimmed or state = 'sealed') not valid;
create index site_days_salt_box on site_days (ends_at) where salt_box is not null;
select show_columns('site_days', '{sealed_at,trimmed}', '{salt_key,salt_box}');

-- From where on a site's raw data is there, and up to where the rest is deleted already.
create table site_retention (
    site_id    uuid        primary key,
    raw_from   timestamptz not null,
    cleared_to timestamptz
);
insert into audit_excluded (pattern, reason) values ('site\_retention', 'kept by a task');
select show_columns('site_retention', '{site_id,raw_from,cleared_to}');

-- The secrets from which the visitors of imported lines get their numbers, by the month of
-- the lines; key_id and box are null once one is destroyed. A row with until is the one
-- secret that a site had before, for the months up to that one.
create table site_import_secrets (
    site_id uuid not null,
    month   date not null,
    key_id  text,
    box     bytea,
    used_on date not null,
    until   date,
    primary key (site_id, month),
    check ((key_id is null) = (box is null))
);
create index site_import_secrets_used on site_import_secrets (used_on) where box is not null;
insert into audit_excluded (pattern, reason) values ('site\_import\_secrets', 'made and destroyed by themselves');
select show_columns('site_import_secrets', '{site_id,month,used_on,until}', '{key_id,box}');

-- Imports, by their number within a site. first_at and last_at bound their events.
create table imports (
    site_id  uuid        not null,
    run      bigint      not null,
    id       uuid        not null,
    format   text        not null,
    name     text        not null,
    state    text        not null check (state in ('running', 'done', 'interrupted', 'undoing', 'undone')),
    began_at timestamptz not null,
    ended_at timestamptz,
    lines    bigint      not null default 0,
    imported bigint      not null default 0,
    first_at timestamptz,
    last_at  timestamptz,
    primary key (site_id, run)
);
create index imports_id on imports (id);
insert into audit_excluded (pattern, reason) values ('imports', 'counters');
select show_columns('imports', '{site_id,run,id,format,name,state,began_at,ended_at,lines,imported,first_at,last_at}');

-- Which import brought a line or an id, and from when it is: a line by its own date, an id
-- by that of its arrival. What was there before is at most as old as this migration.
alter table imported_lines add column added_by bigint, add column line_on date not null default current_date;
alter table reported_events add column added_by bigint, add column claimed_on date not null default current_date;
select show_columns('imported_lines', '{added_by,line_on}');
select show_columns('reported_events', '{added_by,claimed_on}');

-- import_run is the import of an imported event. origin is what a session would have of
-- it, where it began one among the lines that it came with: so an event that came with
-- others can begin a session again when these are taken away.
alter table events add column import_run bigint, add column origin jsonb;
select show_columns('events', '{import_run,origin}');

-- The months that events have a partition for.
-- +goose StatementBegin
create function events_months() returns setof date language sql stable set search_path = public, pg_temp as $$
select to_date(substr(c.relname, 8), 'YYYY_MM') from pg_inherits i join pg_class c on c.oid = i.inhrelid
where i.inhparent = 'events'::regclass and c.relname ~ '^events_\d{4}_\d{2}$' order by 1 $$;
-- +goose StatementEnd
revoke execute on function events_months() from public;
grant execute on function events_months() to waypost_app;

-- Drops a month of events when no site wants any of it, and says whether it is gone. New
-- site days are made under the same lock, shared, before events of them are written. It
-- gives up at once when somebody reads for long: the next time will do.
-- +goose StatementBegin
create function drop_events_month(instant timestamptz) returns boolean
    language plpgsql security definer set search_path = public, pg_temp set timezone = 'UTC' set lock_timeout = '300ms' as $$
declare
    lower_bound timestamptz := date_trunc('month', instant);
    upper_bound timestamptz := date_trunc('month', instant) + interval '1 month';
    part        text := 'events_' || to_char(lower_bound, 'YYYY_MM');
begin
    if upper_bound > now() then
        return false;
    end if;
    perform pg_advisory_xact_lock(hashtext('site_days'));
    if not exists (select from pg_class where relname = part and relnamespace = 'public'::regnamespace) then
        return true;
    end if;
    if exists (
        select from site_days d left join site_retention r on r.site_id = d.site_id
        where d.starts_at < upper_bound and d.ends_at > lower_bound and (r.raw_from is null or r.raw_from < upper_bound)
    ) then
        return false;
    end if;
    lock table only events in access exclusive mode;
    execute format('drop table %I', part);
    return true;
exception when lock_not_available then
    return false;
end $$;
-- +goose StatementEnd
revoke execute on function drop_events_month(timestamptz) from public;
grant execute on function drop_events_month(timestamptz) to waypost_app;

grant select, insert, update, delete on site_retention, site_import_secrets, imports to waypost_app;

-- +goose Down
drop function drop_events_month(timestamptz);
drop function events_months();
alter table events drop column origin, drop column import_run;
alter table reported_events drop column claimed_on, drop column added_by;
alter table imported_lines drop column line_on, drop column added_by;
drop table imports, site_import_secrets, site_retention;
alter table site_days drop column trimmed, drop column sealed_at, drop column salt_box, drop column salt_key;
alter table sites drop column retention_months;
delete from visible_columns where table_name in ('imports', 'site_import_secrets', 'site_retention');
delete from audit_excluded where pattern in ('site\_retention', 'site\_import\_secrets', 'imports');
alter table installation disable trigger audit_row;
update installation set compatible_from = 0;
alter table installation enable always trigger audit_row;
