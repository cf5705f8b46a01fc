-- name: TryIdempotencyLock :one
-- Takes a lock until the end of the transaction, or says that somebody has it.
select pg_try_advisory_xact_lock(@classes::int, @lock::int)::boolean as locked;

-- name: FindIdempotencyKey :one
select * from idempotency_keys
where user_id = @user_id and operation = @operation and key_hash = @key_hash and created_at > @since;

-- name: StoreIdempotencyKey :execrows
-- An older one of the same name is over.
insert into idempotency_keys (user_id, operation, key_hash, request_hash, created_at, answer, sealed_by)
values (@user_id, @operation, @key_hash, @request_hash, @created_at, @answer, @sealed_by)
on conflict (user_id, operation, key_hash) do update
set request_hash = excluded.request_hash, created_at = excluded.created_at, answer = excluded.answer, sealed_by = excluded.sealed_by
where idempotency_keys.created_at <= @since;

-- name: DeleteIdempotencyKeys :execrows
delete from idempotency_keys
where (user_id, operation, key_hash) in (
    select k.user_id, k.operation, k.key_hash from idempotency_keys k
    where k.created_at <= @until order by k.created_at limit @most
    for update skip locked);
