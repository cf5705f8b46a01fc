-- name: LockWebhookRetention :exec
select from webhook_retention for update;

-- name: ListOldWebhookEvents :many
-- The next events behind the mark that have a body.
select e.id, e.created_at from webhook_retention r, webhook_events e
where e.created_at >= r.emptied_until and e.created_at < @before::timestamptz and e.raw is not null and not e.overdue
order by e.created_at
limit @max_rows;

-- name: ListOverdueWebhookEvents :many
-- Events that were still to be handled when their time was over, and no longer are.
select e.id from webhook_events e where e.overdue and e.status <> 'pending' limit @max_rows;

-- name: LockWebhookEventsToEmpty :exec
-- What they are now they stay until the transaction ends.
select id from webhook_events where id = any (@ids::uuid[]) order by id for no key update;

-- name: EmptyWebhookEvents :many
update webhook_events set raw = null, headers = '{}', sealed_headers = null, handler_error = '', overdue = false
where id = any (@ids::uuid[]) and status <> 'pending' and raw is not null
returning id;

-- name: MarkOverdueWebhookEvents :exec
update webhook_events set overdue = true where id = any (@ids::uuid[]) and status = 'pending';

-- name: EmptyWebhookAttempts :exec
update webhook_attempts set error = '' where event_id = any (@ids::uuid[]) and error <> '';

-- name: EmptyWebhookForwards :exec
update webhook_forwards set error = '' where event_id = any (@ids::uuid[]) and error <> '';

-- name: MoveWebhookRetention :exec
update webhook_retention set emptied_until = greatest(emptied_until, @until::timestamptz);

-- name: RedactOldWebhookHeaders :one
-- Takes what may be a secret out of the headers of the next events that an older program
-- stored, and all headers and the error's text of those whose body is gone. words is a
-- regular expression of the names. Seen are the events that were looked at.
with mark as (
    select r.redacted_until, least(r.redact_until, now() - interval '1 minute') as until from webhook_retention r for update
), old as (
    select e.id, e.created_at, e.raw is null as emptied from webhook_events e, mark
    where e.created_at > mark.redacted_until and e.created_at <= mark.until
    order by e.created_at
    fetch first (@max_rows::integer) rows with ties
), redacted as (
    update webhook_events e
    set headers = case when old.emptied then '{}' else
            (select jsonb_object_agg(h.key, case when h.key ~* @words::text then
                 (select coalesce(jsonb_agg('[redacted]'::text), '[]') from jsonb_array_elements(h.value)) else h.value end)
             from jsonb_each(e.headers) h) end,
        handler_error = case when old.emptied then '' else e.handler_error end
    from old
    where e.id = old.id
      and (old.emptied and (e.headers <> '{}' or e.handler_error <> '')
           or exists (select from jsonb_each(e.headers) h cross join lateral jsonb_array_elements_text(h.value) v
                      where h.key ~* @words::text and v.value <> '[redacted]'))
    returning e.id
), attempts as (
    update webhook_attempts a set error = '' from old where a.event_id = old.id and old.emptied and a.error <> ''
), moved as (
    update webhook_retention r set redacted_until = greatest(r.redacted_until, (select max(old.created_at) from old))
    where exists (select from old)
)
select (select count(*) from redacted) as redacted, (select count(*) from old) as seen;

-- name: ListWebhookEventsAfter :many
-- The next events by age, those of the ledger that may be deleted among them.
select id, created_at from webhook_events
where (created_at, id) > (@after_at::timestamptz, @after_id::uuid) and created_at < @before::timestamptz and status <> 'pending'
order by created_at, id
limit @max_rows;

-- name: LockSettledWebhookEvents :many
-- Those of the events that were settled before.
select e.id from webhook_events e
where e.id = any (@ids::uuid[]) and e.status <> 'pending'
  and greatest(e.created_at, e.processed_at, e.attempt_at) < @before::timestamptz
  and not exists (select from webhook_forwards f where f.event_id = e.id and f.settled_at >= @before)
order by e.id
for update;

-- name: DeleteWebhookEvents :exec
-- Their forwards go with them.
delete from webhook_events where id = any (@ids::uuid[]);

-- name: DeleteWebhookAttempts :exec
delete from webhook_attempts where event_id = any (@ids::uuid[]);

-- name: DeleteWebhookReplayEvents :exec
delete from webhook_replay_events where event_id = any (@ids::uuid[]);

-- name: DeleteOldWebhookReplays :execrows
-- Bulk replays that ended before and of whose events none is left.
delete from webhook_replays where id in (
    select r.id from webhook_replays r
    where r.finished_at < @before::timestamptz and not exists (select from webhook_replay_events m where m.replay_id = r.id)
    limit @max_rows);
