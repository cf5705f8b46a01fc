-- name: DeclareCron :exec
-- Sorted, so that two instances take their locks in one order. RescheduleCron comes
-- first.
insert into cron (name, description, schedule, timezone, everywhere, next_run_at, declared_at)
select d.name, d.description, d.schedule, d.timezone, d.everywhere, d.first_run, @now
from (select unnest(@names::text[]) as name,
             unnest(@descriptions::text[]) as description,
             unnest(@schedules::text[]) as schedule,
             unnest(@timezones::text[]) as timezone,
             unnest(@everywheres::boolean[]) as everywhere,
             unnest(@first_runs::timestamptz[]) as first_run) d
order by d.name
on conflict (name) do update set
    description = excluded.description, schedule = excluded.schedule, timezone = excluded.timezone,
    everywhere = excluded.everywhere, declared_at = greatest(cron.declared_at, excluded.declared_at);

-- name: RescheduleCron :exec
-- What is declared under another schedule, or lies further ahead than its schedule can
-- mean, gets its schedule's next run. What is due stays due.
with locked as (select c.name from cron c where c.name = any (@names::text[]) order by c.name for update)
update cron set next_run_at = d.next_run
from (select unnest(@names::text[]) as name,
             unnest(@schedules::text[]) as schedule,
             unnest(@timezones::text[]) as timezone,
             unnest(@next_runs::timestamptz[]) as next_run) d
where cron.name = d.name and cron.name in (select locked.name from locked) and cron.next_run_at > @now
  and (cron.next_run_at > d.next_run or cron.schedule <> d.schedule or cron.timezone <> d.timezone);

-- name: ClaimDueCron :many
-- Lists the tasks of names with their next runs, after those that are due were claimed
-- for this caller. What another instance is claiming is listed with its old time.
with due as (
    select c.name from cron c
    where c.name = any (@names::text[]) and not c.everywhere and c.next_run_at <= @now
    order by c.name
    for update skip locked
), claimed as (
    update cron set next_run_at = d.next_run
    from (select unnest(@names::text[]) as name, unnest(@next_runs::timestamptz[]) as next_run) d
    where cron.name = d.name and cron.name in (select due.name from due)
    returning cron.name, cron.next_run_at
)
select c.name, coalesce(claimed.next_run_at, c.next_run_at)::timestamptz as next_run_at, (claimed.name is not null)::boolean as is_claimed
from cron c left join claimed on claimed.name = c.name
where c.name = any (@names::text[]) and not c.everywhere;

-- name: RecordCronRun :exec
update cron set last_run_at = @started, last_outcome = @outcome, last_error = @error, last_duration = @duration
where name = @name and (last_run_at is null or last_run_at <= @started);

-- name: ListCron :many
select * from cron where declared_at > @declared_after order by name;

-- name: FindCron :one
select * from cron where name = @name and declared_at > @declared_after;

-- name: DeleteForgottenCron :exec
delete from cron where declared_at < @declared_before;

-- name: RenewJobRunner :one
-- Returns how many others have not been seen for that long.
with renewed as (
    insert into job_runners (id, seen_at) values (@id, clock_timestamp())
    on conflict (id) do update set seen_at = excluded.seen_at
)
select count(*) from job_runners r where r.id <> @id and r.seen_at < clock_timestamp() - make_interval(secs => @lease_seconds::float8);

-- name: TakeGoneJobRunners :many
-- Deletes those that have not been seen for that long.
delete from job_runners where id in (
    select r.id from job_runners r where r.seen_at < clock_timestamp() - make_interval(secs => @lease_seconds::float8)
    order by r.id for update skip locked)
returning id;

-- name: DeleteJobRunner :exec
delete from job_runners where id = @id;
