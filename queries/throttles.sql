-- name: FindThrottles :many
-- Those of the pairs of a name and a subject that there are.
select * from throttles where (name, subject) in (select unnest(@names::text[]), unnest(@subjects::text[]));

-- name: LockThrottle :one
-- The row as it was, new with nothing counted, locked until the transaction ends.
insert into throttles (name, subject, count, forget_at) values (@name, @subject, 0, @now)
on conflict (name, subject) do update set name = excluded.name
returning *;

-- name: SetThrottle :exec
update throttles set count = @count, blocked_until = @blocked_until, forget_at = @forget_at
where name = @name and subject = @subject;

-- name: ForgiveThrottle :exec
delete from throttles where name = @name and subject = @subject;

-- name: ForgiveThrottles :exec
-- Those whose subject is in a range, by bytes.
delete from throttles where name = @name and subject >= @first and subject < @beyond;

-- name: SweepThrottles :execrows
delete from throttles where forget_at < $1;

-- name: ClaimThrottle :one
-- The row, locked until the transaction ends.
select * from throttles where name = $1 and subject = $2 for update;
