-- name: InsertWebhookReplay :exec
-- The walk starts behind everything that exists now: ids of one instant compare by
-- their last place.
insert into webhook_replays (id, filter, matched, after_at, after_id, created_at)
values (@id, @filter, @matched, greatest(@created_at::timestamptz, now()), 'ffffffff-ffff-ffff-ffff-ffffffffffff', @created_at);

-- name: FindWebhookReplay :one
select * from webhook_replays where id = @id;

-- name: LockRunningWebhookReplay :one
select * from webhook_replays where id = @id and status = 'running' for update;

-- name: AdvanceWebhookReplay :exec
update webhook_replays set after_at = @after_at, after_id = @after_id where id = @id;

-- name: EndWebhookReplay :execrows
update webhook_replays set status = @status, finished_at = @finished_at::timestamptz where id = @id and status = 'running';

-- name: CountWebhookReplayEvents :one
select count(*) as replayed,
       count(*) filter (where e.status = 'processed') as processed,
       count(*) filter (where e.status = 'failed') as failed,
       count(*) filter (where e.status = 'pending') as pending
from webhook_replay_events t join webhook_events e on e.id = t.event_id
where t.replay_id = @replay_id;

-- name: ListWebhookReplays :many
-- The newest before an id; ids are in the order of time.
select * from webhook_replays where id < @before::uuid order by id desc limit @max_rows;

-- name: CountWebhookReplays :one
select count(*) from webhook_replays;
