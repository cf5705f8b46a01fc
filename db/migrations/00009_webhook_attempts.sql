-- The ledger of attempts, jobs that own events, bulk replays, retention.

-- +goose Up

-- An event that waits for its job has no lease; lease_until then is when a sweep
-- looks whether the job still lives. attempt_at is when the latest attempt was
-- claimed and attempt_ms how long it took; attempts counts all of them, tries
-- those since the arrival or the latest replay, interrupted those in a row that
-- ended without an outcome.
alter table webhook_events
    alter column raw drop not null,
    add column attempts    integer  not null default 0,
    add column tries       integer  not null default 0,
    add column interrupted integer  not null default 0,
    add column attempt_at  timestamptz,
    add column attempt_ms  double precision,
    add column job_id      bigint,
    drop constraint webhook_events_lease,
    add constraint webhook_events_lease check (
        case when status = 'pending' then lease_until is not null
             else lease_id is null and lease_until is null and job_id is null end);

-- Earlier attempts. The latest one is in the event's own row, and moves here when
-- the next is claimed: an event that is handled at once costs no row here.
create table webhook_attempts (
    event_id    uuid        not null references webhook_events,
    number      integer     not null,
    at          timestamptz not null,
    outcome     text        not null check (outcome in ('processed', 'failed', 'interrupted')),
    error       text        not null default '',
    duration_ms double precision,
    primary key (event_id, number)
);

-- Bulk replays. after_at and after_id are where the newest-first walk over the
-- events has come to; it takes no event that was created later than the replay.
create table webhook_replays (
    id          uuid        primary key,
    filter      jsonb       not null,
    status      text        not null default 'running' check (status in ('running', 'finished', 'cancelled')),
    matched     bigint      not null,
    after_at    timestamptz not null,
    after_id    uuid        not null,
    created_at  timestamptz not null,
    finished_at timestamptz,
    check ((status = 'running') = (finished_at is null))
);

create table webhook_replay_events (
    replay_id uuid not null references webhook_replays,
    event_id  uuid not null references webhook_events,
    primary key (replay_id, event_id)
);

-- How far retention has come: everything created earlier is empty.
create table webhook_retention (
    single        boolean     primary key default true check (single),
    emptied_until timestamptz not null
);
insert into webhook_retention (emptied_until) values ('-infinity');

-- River's tables come after these migrations; plpgsql looks for them when called.
-- +goose StatementBegin
create function webhook_job_lives(job bigint) returns boolean language plpgsql stable as $$
begin
    return exists (select from river_job
                   where id = job and state in ('available', 'pending', 'retryable', 'running', 'scheduled'));
end $$;
-- +goose StatementEnd

grant select, insert on webhook_attempts, webhook_replay_events to waypost_app;
grant select, insert, update on webhook_replays to waypost_app;
grant select, update on webhook_retention to waypost_app;

-- +goose Down
drop function webhook_job_lives;
drop table webhook_retention, webhook_replay_events, webhook_replays, webhook_attempts;
delete from webhook_events where raw is null;
alter table webhook_events
    drop constraint webhook_events_lease,
    drop column job_id, drop column attempt_ms, drop column attempt_at,
    drop column interrupted, drop column tries, drop column attempts,
    alter column raw set not null;
update webhook_events set lease_id = gen_random_uuid() where status = 'pending' and lease_id is null;
alter table webhook_events
    add constraint webhook_events_lease check ((status = 'pending') = (lease_id is not null) and (lease_id is null) = (lease_until is null));
