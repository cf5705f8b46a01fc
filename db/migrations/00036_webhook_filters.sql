-- What the filters of the list of deliveries are read from, made while deliveries go on.
-- What an interrupted run left behind is not valid.

-- +goose NO TRANSACTION
-- +goose Up

-- Pending events of a provider, and which of them wait after an attempt that failed. Both
-- are as small as what waits.
drop index concurrently if exists webhook_events_pending_of;
create index concurrently webhook_events_pending_of on webhook_events (provider, created_at desc, id desc) include (event_type) where status = 'pending';
drop index concurrently if exists webhook_events_waiting_of;
create index concurrently webhook_events_waiting_of on webhook_events (provider, created_at desc, id desc) where status = 'pending' and handler_error <> '';

-- Events that were processed because no handler was bound when they arrived: no attempt was
-- ever made.
drop index concurrently if exists webhook_events_unhandled_of;
create index concurrently webhook_events_unhandled_of on webhook_events (provider, created_at desc, id desc) include (event_type) where status = 'processed' and attempts = 0;

-- Errors by their beginning, and by time. Only what failed, or waits after a failure, is in
-- them.
drop index concurrently if exists webhook_events_error;
create index concurrently webhook_events_error on webhook_events (lower(left(handler_error, 200)) text_pattern_ops, created_at desc, id desc) include (provider, event_type, status) where handler_error <> '';
drop index concurrently if exists webhook_events_erring_of;
create index concurrently webhook_events_erring_of on webhook_events (provider, created_at desc, id desc) include (event_type) where handler_error <> '';

-- A target's events.
drop index concurrently if exists webhook_forwards_of;
create index concurrently webhook_forwards_of on webhook_forwards (provider, target, created_at desc, event_id desc);

-- Events whose body an earlier event of their provider has. They are found after they were
-- stored, so that no delivery waits for it and two at once are not both taken for the
-- first; the mark is the last that was looked at. Rows of events that are gone go
-- with the next look.
create table if not exists webhook_repeats (
    id         uuid        not null,
    provider   text        not null,
    event_type text        not null,
    created_at timestamptz not null,
    primary key (created_at, id)
);
create index if not exists webhook_repeats_of on webhook_repeats (provider, created_at desc, id desc) include (event_type);
create table if not exists webhook_repeats_mark (
    single     boolean     primary key default true check (single),
    checked_at timestamptz not null,
    checked_id uuid        not null
);
insert into webhook_repeats_mark (checked_at, checked_id) values ('-infinity', '00000000-0000-0000-0000-000000000000') on conflict do nothing;
insert into audit_excluded (pattern, reason) values ('webhook\_repeats%', 'derived from webhook_events') on conflict do nothing;
select show_columns('webhook_repeats', '{id,provider,event_type,created_at}');
select show_columns('webhook_repeats_mark', '{single,checked_at,checked_id}');
grant select, insert, delete on webhook_repeats to waypost_app;
grant select, update on webhook_repeats_mark to waypost_app;

-- Troubles of providers that an alert was raised about, until a notice says that they are
-- over.
create table if not exists webhook_troubles (
    provider  text        not null check (char_length(provider) between 1 and 50),
    kind      text        not null check (char_length(kind) between 1 and 50),
    raised_at timestamptz not null,
    primary key (provider, kind)
);
insert into audit_excluded (pattern, reason) values ('webhook\_troubles', 'what the service measures of providers') on conflict do nothing;
select show_columns('webhook_troubles', '{provider,kind,raised_at}');
grant select, insert, delete on webhook_troubles to waypost_app;

-- +goose Down
drop table webhook_troubles;
drop table webhook_repeats, webhook_repeats_mark;
delete from audit_excluded where pattern in ('webhook\_repeats%', 'webhook\_troubles');
delete from visible_columns where table_name in ('webhook_repeats', 'webhook_repeats_mark', 'webhook_troubles');
drop index concurrently if exists webhook_forwards_of;
drop index concurrently if exists webhook_events_erring_of;
drop index concurrently if exists webhook_events_error;
drop index concurrently if exists webhook_events_unhandled_of;
drop index concurrently if exists webhook_events_waiting_of;
drop index concurrently if exists webhook_events_pending_of;
