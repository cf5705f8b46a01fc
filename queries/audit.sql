-- name: SealAudit :one
-- Gives committed entries their places in the chain, and returns how many.
select audit_seal(@most_rows::integer)::integer;

-- name: WriteAuditNote :exec
select audit_note(sqlc.narg('of_table')::text, sqlc.narg('of_row')::text, @what::jsonb);

-- name: EmptyAudit :one
select audit_empty(@older_than::timestamptz, @most_rows::integer)::integer;

-- name: EraseAudit :one
select audit_erase(@of_table::text, @of_row::text)::integer;

-- name: FindAuditHead :one
select h.seq, h.hash, i.install_id, coalesce((select max(l.seq) from audit_log l), 0)::bigint as last_seq
from audit_head h cross join installation i;

-- name: FindInstallID :one
select install_id from installation;

-- name: FindAuditEntry :one
select * from audit_log where seq = $1;

-- name: ListAuditEntries :many
select * from audit_log where seq between @from_seq and @to_seq order by seq limit @most;

-- name: ListAuditHashes :many
select seq, hash from audit_log where seq between $1 and $2 order by seq;

-- name: ListAuditNodes :many
select level, idx, hash from audit_tree
where (level, idx) in (select unnest(@levels::smallint[]), unnest(@indexes::bigint[]));

-- name: ListPendingAudit :many
select id from audit_pending order by id limit $1;

-- name: CountPendingAudit :one
select count(*) as entries, count(*) filter (where id = any (@seen::bigint[])) as seen_before from audit_pending;

-- name: ListEmptiedNotes :many
-- The latest notes that say up to which entry retention has emptied.
select * from audit_log
where op = 'note' and table_name = 'audit_log' and changes like '%"emptied"%' order by seq desc limit 10;

-- name: ListErasedNotes :many
-- Notes that say which entries were emptied about one row, behind an entry.
select * from audit_log
where op = 'note' and table_name = 'audit_log' and changes like '%"erased"%' and seq > @after_seq order by seq limit 100;

-- name: ListPendingAuditNotes :many
select * from audit_pending where op = 'note' and table_name = 'audit_log';

-- name: ListBatchDigests :many
-- Of the webhook events of some batches: how many there are, how many without a body,
-- and the digest over them. The nth of seqs is the batch of the nth of ids.
select w.seq::bigint as seq, count(*)::bigint as found, (count(*) filter (where e.raw is null))::bigint as emptied,
       sha256(string_agg(audit_webhook_line(e.id, e.provider, e.event_type, e.external_id, coalesce(sha256(e.raw), e.raw_sha256)), '' order by e.id)) as digest
from (select unnest(@seqs::bigint[]) as seq, unnest(@ids::uuid[]) as id) w join webhook_events e on e.id = w.id
group by w.seq;

-- name: ListBatchRows :many
select id, (raw is null)::boolean as emptied, coalesce(sha256(raw) = raw_sha256, true)::boolean as intact from webhook_events where id = any (@ids::uuid[]);

-- name: ListBatchesOfGone :many
-- Entries that say of webhook events that they were deleted, emptied or changed.
select * from audit_log
where op = 'batch' and changes like '%"old": {%' and (changes::jsonb -> 'old' -> 'ids') ?| @ids::text[] order by seq;

-- name: ListPendingBatchesOfGone :many
select * from audit_pending
where op = 'batch' and changes like '%"old": {%' and (changes::jsonb -> 'old' -> 'ids') ?| @ids::text[] order by id;

-- name: FindAuditKey :one
select public_key, private_key, wrapping_key_id from audit_keys;

-- name: InsertAuditKey :exec
insert into audit_keys (public_key, private_key, wrapping_key_id, created_at) values (@public_key, @private_key, @wrapping_key_id, @now)
on conflict (one_row) do nothing;

-- name: RewrapAuditKey :exec
-- Unless another instance did it before.
update audit_keys set private_key = @private_key, wrapping_key_id = @wrapping_key_id where wrapping_key_id = @old_wrapping_key_id;

-- name: LockAuditCheckpoints :one
-- One instance at a time signs: another doesn't wait, since it would find nothing new.
select pg_try_advisory_xact_lock(hashtextextended('waypost.audit_checkpoints', 0));

-- name: FindNewestCheckpoint :one
select * from audit_checkpoints order by size desc limit 1;

-- name: ListCheckpoints :many
select * from audit_checkpoints where size < @before_size order by size desc limit @most;

-- name: CountCheckpoints :one
select count(*) from audit_checkpoints;

-- name: ListCheckpointsBetween :many
select * from audit_checkpoints where size between $1 and $2 order by size;

-- name: FindCheckpointBehind :one
select * from audit_checkpoints where size > $1 order by size limit 1;

-- name: InsertCheckpoint :execrows
insert into audit_checkpoints (size, root, head_hash, at, note) values (@size, @root, @head_hash, @at, @note) on conflict (size) do nothing;

-- name: ListVerifications :many
select * from audit_verifications order by kind;

-- name: FindVerification :one
select * from audit_verifications where kind = $1;

-- name: KeepVerification :exec
-- alerted stays while the same break is found again.
insert into audit_verifications as v (kind, at, to_seq, to_hash, ok, bad_seq, bad_reason)
values (@kind, @at, @to_seq, @to_hash, @ok, sqlc.narg('bad_seq'), @bad_reason)
on conflict (kind) do update set at = excluded.at, to_seq = excluded.to_seq, to_hash = excluded.to_hash, ok = excluded.ok,
    bad_seq = excluded.bad_seq, bad_reason = excluded.bad_reason,
    alerted = v.alerted and not excluded.ok and v.bad_seq is not distinct from excluded.bad_seq and v.bad_reason = excluded.bad_reason;

-- name: MarkAlerted :execrows
-- Whoever changes the row raises the alarm.
update audit_verifications set alerted = true where kind = @kind and not ok and not alerted;
