-- name: MarkWebhookRepeats :one
-- Looks at up to max_rows events behind the mark and behind after, the oldest first, for
-- those whose body an earlier event of their provider has, and moves the mark to the last of
-- them that came before settled_at. Its row is locked: one at a time does this, and another
-- finds nothing. last is the last that was looked at, after itself without any.
-- The first event with an equal body is the first entry of an index from there on, however
-- many there are.
with mark as (
    select m.checked_at, m.checked_id from webhook_repeats_mark m for update skip locked
), recent as (
    select e.id, e.provider, e.event_type, e.created_at, e.raw_sha256
    from mark m cross join lateral (
        select w.id, w.provider, w.event_type, w.created_at, w.raw_sha256 from webhook_events w
        where (w.created_at, w.id) > (greatest(m.checked_at, @after_at::timestamptz),
                                      case when @after_at > m.checked_at then @after_id::uuid when @after_at < m.checked_at then m.checked_id else greatest(@after_id, m.checked_id) end)
        order by w.created_at, w.id
        limit @max_rows::integer) e
), repeated as (
    insert into webhook_repeats (id, provider, event_type, created_at)
    select r.id, r.provider, r.event_type, r.created_at from recent r
    where r.id <> (select b.id from webhook_events b
                   where (b.raw_sha256, b.provider) >= (r.raw_sha256, r.provider)
                   order by b.raw_sha256, b.provider, b.id limit 1)
    on conflict do nothing
    returning id
), moved as (
    update webhook_repeats_mark m set checked_at = l.created_at, checked_id = l.id
    from (select r.created_at, r.id from recent r where r.created_at < @settled_at::timestamptz order by r.created_at desc, r.id desc limit 1) l
)
select (select count(*) from recent) as looked_at, (select count(*) from repeated) as repeats,
       coalesce((select r.created_at from recent r order by r.created_at desc, r.id desc limit 1), @after_at)::timestamptz as last_at,
       coalesce((select r.id from recent r order by r.created_at desc, r.id desc limit 1), @after_id)::uuid as last_id;

-- name: DeleteLostWebhookRepeats :execrows
-- Those of events that were deleted, which are the oldest ones.
delete from webhook_repeats r where r.created_at < coalesce((select e.created_at from webhook_events e order by e.created_at, e.id limit 1), 'infinity');

-- name: HasUncheckedWebhookEvents :one
select exists (select from webhook_repeats_mark m cross join lateral (
    select from webhook_events w where (w.created_at, w.id) > (m.checked_at, m.checked_id) order by w.created_at, w.id limit 1) e);
