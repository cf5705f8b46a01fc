-- The schedule of periodic tasks, and the leases of the processes that work jobs.

-- +goose Up

-- One row for each task that a running program declares. Programs of other versions
-- may declare others, so nobody deletes a row because it doesn't know it: one that
-- nobody declares any more is left out of lists after a while, and deleted long after.
create table cron (
    name          text             primary key,
    description   text             not null,
    schedule      text             not null, -- "every 30s", or an expression of cron
    timezone      text             not null, -- in which the expression is meant
    everywhere    boolean          not null, -- every process runs it by itself
    next_run_at   timestamptz      not null,
    declared_at   timestamptz      not null, -- when a process last said that it has it
    last_run_at   timestamptz, -- when the last run that ended began
    last_outcome  text             check (last_outcome in ('ok', 'failed')),
    last_error    text,
    last_duration double precision -- seconds
) with (fillfactor = 50); -- updated every few seconds, in place

-- A process that works jobs says every few seconds that it is alive. Once it has not
-- for a while, others take over the jobs that it was running.
create table job_runners (
    id      text        primary key, -- as in the last element of river_job.attempted_by
    seen_at timestamptz not null
) with (fillfactor = 50);

insert into audit_excluded (pattern, reason) values
    ('cron', 'runs of periodic tasks; what somebody does to one is a note'),
    ('job\_runners', 'announced by running instances');

grant select, insert, update, delete on cron, job_runners to waypost_app;

-- +goose Down
drop table job_runners;
drop table cron;
delete from audit_excluded where pattern in ('cron', 'job\_runners');
