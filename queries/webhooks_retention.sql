-- name: EmptyOldWebhookEvents :one
-- Empties the next events behind the mark, which moves to the last of them, or to
-- the end of the span when there are no more. What is still to be handled stays,
-- and holds the mark.
with mark as (
    select r.emptied_until, least(@before::timestamptz,
           coalesce((select min(p.created_at) from webhook_events p where p.status = 'pending'), @before::timestamptz)) as until
    from webhook_retention r for update
), old as (
    select e.id, e.created_at from webhook_events e, mark
    where e.created_at >= mark.emptied_until and e.created_at < mark.until and e.raw is not null
    order by e.created_at
    limit @max_rows
), emptied as (
    update webhook_events e set raw = null from old
    where e.id = old.id and e.status <> 'pending'
    returning e.id
), moved as (
    update webhook_retention r
    set emptied_until = greatest(r.emptied_until,
        case when (select count(*) from old) < @max_rows then (select mark.until from mark) else (select max(old.created_at) from old) end)
)
select (select count(*) from emptied) as emptied, (select count(*) from old) as seen;
