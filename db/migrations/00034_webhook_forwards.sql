-- Forwards: what has been sent to which target of a configuration, and the targets' own state.

-- +goose Up

-- One row for each event and target, stored with the event. While status is pending, due_at
-- is when the row may be claimed: the time of the next attempt, or with a lease_id the end
-- of that lease, after which the attempt counts as interrupted. The latest attempt is in the
-- row, earlier ones are in webhook_attempts. attempts counts all of them, tries those since
-- the arrival or the latest replay, interrupted those in a row that ended without an
-- outcome. The event itself is pending, with lease_until infinity and no lease_id, until
-- none of its rows is.
create table webhook_forwards (
    event_id     uuid        not null references webhook_events on delete cascade,
    target       text        not null check (char_length(target) between 1 and 100),
    provider     text        not null check (char_length(provider) between 1 and 50),
    status       text        not null default 'pending' check (status in ('pending', 'processed', 'failed')),
    error        text        not null default '',
    attempts     integer     not null default 0,
    tries        integer     not null default 0,
    interrupted  integer     not null default 0,
    attempt_at   timestamptz,
    attempt_ms   double precision,
    due_at       timestamptz,
    lease_id     uuid,
    trace        text        not null default '', -- of the delivery, as W3C Trace Context has it
    headers_gone boolean     not null default false, -- sent without the provider's own headers, which were erased before
    created_at   timestamptz not null,
    settled_at   timestamptz,
    primary key (event_id, target),
    check ((status = 'pending') = (due_at is not null)),
    check (lease_id is null or status = 'pending')
) with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05);
create index webhook_forwards_due on webhook_forwards (provider, target, due_at) where status = 'pending';

-- A target that some instance has or had. announced_at is renewed each minute by every
-- instance that has it. failures counts failed attempts in a row; with too many the breaker
-- opens: one attempt at a time is made from probe_at on, until one succeeds.
create table webhook_targets (
    provider     text        not null check (char_length(provider) between 1 and 50),
    name         text        not null check (char_length(name) between 1 and 100),
    announced_at timestamptz not null,
    paused_at    timestamptz,
    failures     integer     not null default 0,
    opened_at    timestamptz,
    probe_at     timestamptz,
    probes       integer     not null default 0, -- that failed since it opened
    primary key (provider, name),
    check ((opened_at is null) = (probe_at is null))
);

insert into audit_excluded (pattern, reason) values ('webhook\_forwards', 'the event''s own batches say what became of it');
-- Who pauses a target is an entry, what the service measures is none.
select audit_cover('webhook_targets', '{}', '{announced_at,failures,opened_at,probe_at,probes}');
select show_columns('webhook_forwards', '{event_id,target,provider,status,error,attempts,tries,interrupted,attempt_at,attempt_ms,due_at,lease_id,trace,headers_gone,created_at,settled_at}');
select show_columns('webhook_targets', '{provider,name,announced_at,paused_at,failures,opened_at,probe_at,probes}');

-- The ledger by target; '' is a handler in code.
alter table webhook_attempts
    add column target text not null default '',
    drop constraint webhook_attempts_pkey,
    add primary key (event_id, target, number);
select show_columns('webhook_attempts', '{target}');

-- How often the event was replayed with force: its targets get another webhook-id each time.
alter table webhook_events add column forced_replays integer not null default 0;
select show_columns('webhook_events', '{forced_replays}');

grant select, insert, update, delete on webhook_forwards, webhook_targets to waypost_app;

-- +goose Down
-- What waits for a target has no job; an older program sweeps it.
update webhook_events set lease_until = now() where status = 'pending' and lease_until = 'infinity';
drop table webhook_targets;
drop table webhook_forwards;
delete from audit_excluded where pattern = 'webhook\_forwards';
delete from visible_columns where table_name in ('webhook_forwards', 'webhook_targets');
delete from webhook_attempts where target <> '';
alter table webhook_attempts
    drop constraint webhook_attempts_pkey,
    drop column target,
    add primary key (event_id, number);
alter table webhook_events drop column forced_replays;
update visible_columns set shown = array_remove(shown, 'target') where table_name = 'webhook_attempts';
update visible_columns set shown = array_remove(shown, 'forced_replays') where table_name = 'webhook_events';
