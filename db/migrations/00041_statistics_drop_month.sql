-- Citus plans no exists over an empty list of columns: on a cluster the question whether a
-- site still wants a month was refused, and with it the whole retention.
-- Programs from before call the function as they did, so compatible_from stays.

-- +goose Up
-- +goose StatementBegin
create or replace function drop_events_month(instant timestamptz) returns boolean
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
        select 1 from site_days d left join site_retention r on r.site_id = d.site_id
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

-- +goose Down
select 1; -- the function as it was does the same on one PostgreSQL
