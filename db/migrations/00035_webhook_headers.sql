-- Headers of deliveries: the provider's own ones, encrypted, while an event that is passed
-- on with them waits; those that are kept without what may be a secret; none once the
-- retention is over. What is settled can be deleted.

-- +goose NO TRANSACTION
-- +goose Up

-- sealed_headers are the delivery's own headers, encrypted with the operator's secret key:
-- 16 characters that name the key, then the nonce and the ciphertext. Null for an event
-- that is sent nowhere with them, and once it is settled. overdue says that the retention
-- was over while the event was pending: it is emptied as soon as it is settled.
alter table webhook_events
    add column if not exists sealed_headers bytea,
    add column if not exists overdue boolean not null default false;
select show_columns('webhook_events', '{overdue}', '{sealed_headers}');
-- What an interrupted run left behind is not valid.
drop index concurrently if exists webhook_events_overdue;
create index concurrently webhook_events_overdue on webhook_events (id) where overdue;

-- Deletions of events look for what refers to them.
drop index concurrently if exists webhook_replay_events_event;
create index concurrently webhook_replay_events_event on webhook_replay_events (event_id);

-- How far the headers of events that an older program stored are redacted: of all that were
-- created before redacted_until. At redact_until that ends: no older program runs any more.
alter table webhook_retention
    add column if not exists redacted_until timestamptz not null default '-infinity',
    add column if not exists redact_until timestamptz not null default now() + interval '2 days';
-- +goose StatementBegin
do $$
begin
    drop trigger audit_row on webhook_retention;
    drop trigger audit_truncate on webhook_retention;
    perform audit_cover('webhook_retention', '{}', '{emptied_until,redacted_until}');
end $$;
-- +goose StatementEnd
select show_columns('webhook_retention', '{redacted_until,redact_until}');

grant delete on webhook_events, webhook_attempts, webhook_replay_events, webhook_replays to waypost_app;
grant update on webhook_attempts to waypost_app;

-- The triggers of webhook_events, as before, but for headers. What retention empties is one
-- entry, bodies and headers; that headers were redacted is an entry of its own, which leaves
-- the rows to be verified as they were.
-- +goose StatementBegin
create or replace function audit_webhook_events() returns trigger language plpgsql security definer set search_path = public, pg_temp as $$
declare
    batch jsonb;
    other jsonb;
begin
    if tg_op = 'INSERT' then
        select jsonb_build_object('rows', count(*), 'ids', jsonb_agg(n.id order by n.id),
               'sha256', encode(sha256(string_agg(audit_webhook_line(n.id, n.provider, n.event_type, n.external_id, coalesce(sha256(n.raw), n.raw_sha256)), '' order by n.id)), 'hex'))
        into batch from new_rows n having count(*) > 0;
        if batch is not null then
            perform audit_write('batch', 'webhook_events', null, jsonb_build_object('new', batch)::text);
        end if;
        return null;
    elsif tg_op = 'DELETE' then
        select jsonb_build_object('rows', count(*), 'ids', jsonb_agg(o.id order by o.id),
               'sha256', encode(sha256(string_agg(audit_webhook_line(o.id, o.provider, o.event_type, o.external_id, coalesce(sha256(o.raw), o.raw_sha256)), '' order by o.id)), 'hex'))
        into batch from old_rows o having count(*) > 0;
        if batch is not null then
            perform audit_write('batch', 'webhook_events', null, jsonb_build_object('old', batch)::text);
        end if;
        return null;
    end if;
    -- Outcomes and replays.
    select jsonb_build_object('rows', count(*), 'ids', jsonb_agg(n.id order by n.id), 'status', jsonb_agg(n.status order by n.id),
           'sha256', encode(sha256(string_agg(audit_webhook_line(n.id, n.provider, n.event_type, n.external_id, n.raw_sha256) || audit_lp(convert_to(n.status, 'UTF8')), '' order by n.id)), 'hex'))
    into batch from new_rows n join old_rows o on o.id = n.id
    where n.status <> o.status or n.retry_count <> o.retry_count having count(*) > 0;
    if batch is not null then
        perform audit_write('batch', 'webhook_events', null, jsonb_build_object('new', batch)::text);
    end if;
    -- Bodies that are gone, by retention.
    select jsonb_build_object('rows', count(*), 'ids', jsonb_agg(o.id order by o.id),
           'sha256', encode(sha256(string_agg(audit_webhook_line(o.id, o.provider, o.event_type, o.external_id, o.raw_sha256), '' order by o.id)), 'hex'))
    into batch from new_rows n join old_rows o on o.id = n.id
    where o.raw is not null and n.raw is null having count(*) > 0;
    if batch is not null then
        perform audit_write('batch', 'webhook_events', null, jsonb_build_object('old', batch)::text);
    end if;
    -- Headers that lost what may be a secret: the rows are what they were.
    select jsonb_build_object('rows', count(*), 'ids', jsonb_agg(n.id order by n.id),
           'sha256', encode(sha256(string_agg(audit_webhook_line(n.id, n.provider, n.event_type, n.external_id, n.raw_sha256), '' order by n.id)), 'hex'))
    into batch from new_rows n join old_rows o on o.id = n.id
    where n.headers is distinct from o.headers and (n.raw is not null or o.raw is null) having count(*) > 0;
    if batch is not null then
        perform audit_write('batch', 'webhook_events', null, jsonb_build_object('new', batch)::text);
    end if;
    -- Whatever else: nothing of ours does that.
    select jsonb_build_object('rows', count(o.id), 'ids', jsonb_agg(o.id order by o.id) filter (where o.id is not null),
               'sha256', encode(sha256(coalesce(string_agg(audit_webhook_line(o.id, o.provider, o.event_type, o.external_id, o.raw_sha256), '' order by o.id), '')), 'hex')),
           jsonb_build_object('rows', count(n.id), 'ids', jsonb_agg(n.id order by n.id) filter (where n.id is not null),
               'sha256', encode(sha256(coalesce(string_agg(audit_webhook_line(n.id, n.provider, n.event_type, n.external_id, coalesce(sha256(n.raw), n.raw_sha256)), '' order by n.id), '')), 'hex'))
    into batch, other from new_rows n full join old_rows o on o.id = n.id
    where (n.id, n.provider, n.event_type, n.external_id, n.created_at, n.raw_sha256)
          is distinct from (o.id, o.provider, o.event_type, o.external_id, o.created_at, o.raw_sha256)
       or n.raw is distinct from o.raw and (n.raw is not null or o.raw is null)
    having count(*) > 0;
    if batch is not null then
        perform audit_write('batch', 'webhook_events', null, jsonb_build_object('old', batch, 'new', other)::text);
    end if;
    return null;
end $$;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
create or replace function audit_webhook_events() returns trigger language plpgsql security definer set search_path = public, pg_temp as $$
declare
    batch jsonb;
    other jsonb;
begin
    if tg_op = 'INSERT' then
        select jsonb_build_object('rows', count(*), 'ids', jsonb_agg(n.id order by n.id),
               'sha256', encode(sha256(string_agg(audit_webhook_line(n.id, n.provider, n.event_type, n.external_id, coalesce(sha256(n.raw), n.raw_sha256)), '' order by n.id)), 'hex'))
        into batch from new_rows n having count(*) > 0;
        if batch is not null then
            perform audit_write('batch', 'webhook_events', null, jsonb_build_object('new', batch)::text);
        end if;
        return null;
    elsif tg_op = 'DELETE' then
        select jsonb_build_object('rows', count(*), 'ids', jsonb_agg(o.id order by o.id),
               'sha256', encode(sha256(string_agg(audit_webhook_line(o.id, o.provider, o.event_type, o.external_id, coalesce(sha256(o.raw), o.raw_sha256)), '' order by o.id)), 'hex'))
        into batch from old_rows o having count(*) > 0;
        if batch is not null then
            perform audit_write('batch', 'webhook_events', null, jsonb_build_object('old', batch)::text);
        end if;
        return null;
    end if;
    -- Outcomes and replays.
    select jsonb_build_object('rows', count(*), 'ids', jsonb_agg(n.id order by n.id), 'status', jsonb_agg(n.status order by n.id),
           'sha256', encode(sha256(string_agg(audit_webhook_line(n.id, n.provider, n.event_type, n.external_id, n.raw_sha256) || audit_lp(convert_to(n.status, 'UTF8')), '' order by n.id)), 'hex'))
    into batch from new_rows n join old_rows o on o.id = n.id
    where n.status <> o.status or n.retry_count <> o.retry_count having count(*) > 0;
    if batch is not null then
        perform audit_write('batch', 'webhook_events', null, jsonb_build_object('new', batch)::text);
    end if;
    -- Bodies that are gone, by retention.
    select jsonb_build_object('rows', count(*), 'ids', jsonb_agg(o.id order by o.id),
           'sha256', encode(sha256(string_agg(audit_webhook_line(o.id, o.provider, o.event_type, o.external_id, o.raw_sha256), '' order by o.id)), 'hex'))
    into batch from new_rows n join old_rows o on o.id = n.id
    where o.raw is not null and n.raw is null having count(*) > 0;
    if batch is not null then
        perform audit_write('batch', 'webhook_events', null, jsonb_build_object('old', batch)::text);
    end if;
    -- Whatever else: nothing of ours does that.
    select jsonb_build_object('rows', count(o.id), 'ids', jsonb_agg(o.id order by o.id) filter (where o.id is not null),
               'sha256', encode(sha256(coalesce(string_agg(audit_webhook_line(o.id, o.provider, o.event_type, o.external_id, o.raw_sha256), '' order by o.id), '')), 'hex')),
           jsonb_build_object('rows', count(n.id), 'ids', jsonb_agg(n.id order by n.id) filter (where n.id is not null),
               'sha256', encode(sha256(coalesce(string_agg(audit_webhook_line(n.id, n.provider, n.event_type, n.external_id, coalesce(sha256(n.raw), n.raw_sha256)), '' order by n.id), '')), 'hex'))
    into batch, other from new_rows n full join old_rows o on o.id = n.id
    where (n.id, n.provider, n.event_type, n.external_id, n.created_at, n.raw_sha256, n.headers)
          is distinct from (o.id, o.provider, o.event_type, o.external_id, o.created_at, o.raw_sha256, o.headers)
       or n.raw is distinct from o.raw and (n.raw is not null or o.raw is null)
    having count(*) > 0;
    if batch is not null then
        perform audit_write('batch', 'webhook_events', null, jsonb_build_object('old', batch, 'new', other)::text);
    end if;
    return null;
end $$;
-- +goose StatementEnd
revoke update on webhook_attempts from waypost_app;
revoke delete on webhook_events, webhook_attempts, webhook_replay_events, webhook_replays from waypost_app;
update visible_columns set shown = array_remove(array_remove(shown, 'redacted_until'), 'redact_until') where table_name = 'webhook_retention';
update visible_columns set shown = array_remove(shown, 'overdue'), hidden = array_remove(hidden, 'sealed_headers') where table_name = 'webhook_events';
-- +goose StatementBegin
do $$
begin
    drop trigger audit_row on webhook_retention;
    drop trigger audit_truncate on webhook_retention;
    alter table webhook_retention drop column redacted_until, drop column redact_until;
    perform audit_cover('webhook_retention', '{}', '{emptied_until}');
end $$;
-- +goose StatementEnd
drop index concurrently if exists webhook_replay_events_event;
drop index concurrently if exists webhook_events_overdue;
alter table webhook_events drop column overdue, drop column sealed_headers;
