-- Service accounts, each with its row in users, which owns what it makes.

-- name: InsertServiceAccount :one
with owner as (
    insert into users (first_name, last_name, email, email_key, password_hash, role, active, created_at, updated_at)
    values ('Service', 'account', @user_key, @user_key, '', 'USER', false, @now, @now)
    returning id, email_key
)
insert into service_accounts (id, user_key, name, role, active, created_at)
select owner.id, owner.email_key, @name, @role, @active, @now from owner
returning *;

-- name: FindServiceAccount :one
select * from service_accounts where id = $1;

-- name: LockServiceAccount :one
select * from service_accounts where id = $1 for update;

-- name: UpdateServiceAccount :one
update service_accounts set name = coalesce(sqlc.narg('name'), name), role = coalesce(sqlc.narg('role'), role),
    active = coalesce(sqlc.narg('active'), active)
where id = @id returning *;

-- name: DeleteServiceAccount :execrows
-- With everything that is its own.
delete from users u using service_accounts s where u.id = s.id and s.id = $1;
