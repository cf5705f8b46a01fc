-- Files and what they take of quotas.
--
-- A commit that is not waited for (synchronous_commit is off) is lost when the
-- database crashes: it is for what a sweep can put right. What a client is told of is
-- always waited for.

-- name: BeginUpload :one
-- Reserves a part of its owner's quota for a new row, or returns none when that is
-- passed.
with quick as (
    select set_config('synchronous_commit', case when @durable::bool then 'on' else 'off' end, true) as setting
), reserved as (
    insert into upload_usage as u (owner_id, bytes)
    select @owner_id, @held from quick where @held::bigint <= @quota::bigint
    on conflict (owner_id) do update set bytes = u.bytes + excluded.bytes where u.bytes + excluded.bytes <= @quota
    returning owner_id
)
insert into uploads (owner_id, filename, content_type, size, sha256, backend, key, staging_key, held, expires_at, created_at, updated_at)
select owner_id, @filename, @content_type, @size, sqlc.narg('sha256'), @backend, @key, sqlc.narg('staging_key'), @held, @expires_at, @now, @now
from reserved
returning *;

-- name: SettleUpload :execrows
-- Makes a pending row hold what it turned out to need. It changes nothing when that
-- is more, and passes the quota.
with quick as (
    select set_config('synchronous_commit', 'off', true) as setting
), row as (
    select u.id as row_id, u.owner_id as row_owner, u.held as row_held
    from uploads u cross join quick where u.id = @id and u.key = @key and u.status = 'pending' for update of u
), counted as (
    update upload_usage c set bytes = c.bytes - row_held + @size::bigint from row
    where c.owner_id = row_owner and (@size <= row_held or c.bytes - row_held + @size <= @quota::bigint)
    returning c.owner_id as counted_owner
)
update uploads set held = @size from row, counted where uploads.id = row_id;

-- name: FinishUpload :one
-- Makes a pending row ready. Its key says that it is still the row that was begun: a
-- database that crashed may have lost that one and given its id to another.
update uploads set status = 'ready', content_type = @content_type, size = @size, held = @size, sha256 = @sha256, width = sqlc.narg('width'), height = sqlc.narg('height'),
    staging_key = null, expires_at = null, claimed_until = null, updated_at = @now
where id = @id and key = @key and status = 'pending' and held = @size
returning *;

-- name: AbandonUpload :execrows
-- Removes a pending row whose bytes did not come.
with quick as (
    select set_config('synchronous_commit', 'off', true) as setting
), gone as (
    delete from uploads u using quick where u.id = @id and u.key = @key and u.status = 'pending'
    returning u.owner_id as gone_owner, u.held as gone_held
)
update upload_usage c set bytes = c.bytes - gone_held from gone where c.owner_id = gone_owner;

-- name: FindUpload :one
-- Only what the acting account may see: its own, or any.
select * from uploads where id = @id and (@anyones::bool or owner_id = @actor_id);

-- name: FindReadyUpload :one
-- For whoever may see any.
select * from uploads where id = @id and status = 'ready';

-- name: FindUploads :many
-- Several as of FindUpload, each for its own acting account; what isn't there, or not for them, is
-- left out.
select w.place, sqlc.embed(u)
from (select unnest(@ids::bigint[]) as id, unnest(@actor_ids::bigint[]) as actor_id, unnest(@anyones::bool[]) as anyones,
             unnest(@places::int[])::int as place) w
join uploads u on u.id = w.id and (w.anyones or u.owner_id = w.actor_id);

-- name: RenameUpload :one
update uploads set filename = coalesce(sqlc.narg('filename'), filename), updated_at = @now
where id = @id and (@anyones::bool or owner_id = @actor_id)
returning *;

-- name: DeleteUpload :one
with gone as (
    delete from uploads u where u.id = @id and (@anyones::bool or u.owner_id = @actor_id)
    returning u.owner_id as gone_owner, u.held as gone_held, u.backend, u.key, u.staging_key, u.thumbnail_key
), freed as (
    update upload_usage c set bytes = c.bytes - gone_held from gone where c.owner_id = gone_owner
)
select backend, key, staging_key, thumbnail_key from gone;

-- name: DeleteUploadsOf :many
with gone as (
    delete from uploads u where u.owner_id = @owner_id
    returning u.held as gone_held, u.backend, u.key, u.staging_key, u.thumbnail_key
), freed as (
    update upload_usage c set bytes = c.bytes - coalesce((select sum(gone_held) from gone), 0)::bigint where c.owner_id = @owner_id
)
select backend, key, staging_key, thumbnail_key from gone;

-- name: ClaimUpload :one
-- Lets one caller at a time look at bytes that came by a signed address, which it
-- moves to a key of its own. The key before is where an earlier caller, that did not
-- come to its end, may have left them.
with row as (
    select p.id as row_id, p.key as former_key from uploads p
    where p.id = @id and p.owner_id = @owner_id and p.status = 'pending' and p.staging_key is not null and p.expires_at > @now and (p.claimed_until is null or p.claimed_until <= @now)
    for update
)
update uploads u set key = @key, claimed_until = @claimed_until from row where u.id = row_id
returning sqlc.embed(u), former_key;

-- name: ReleaseUpload :execrows
update uploads set claimed_until = null where id = @id and key = @key and status = 'pending';

-- name: DeleteExpiredUploads :many
-- Of any backend: the quota is given back though its bytes can't be reached from here.
with late as (
    select p.id as late_id from uploads p where p.status = 'pending' and p.expires_at <= @now and (p.claimed_until is null or p.claimed_until <= @now)
    order by p.expires_at limit @most for update skip locked
), gone as (
    delete from uploads u using late where u.id = late_id
    returning u.owner_id as gone_owner, u.held as gone_held, u.backend, u.key, u.staging_key
), freed as (
    update upload_usage c set bytes = c.bytes - given from (select gone_owner as of_owner, sum(gone_held)::bigint as given from gone group by gone_owner) g where c.owner_id = of_owner
)
select backend, key, staging_key from gone;

-- name: ListUnknownKeys :many
-- Which of these keys no row has.
select k::text from unnest(@keys::text[]) k
where not exists (select from uploads u where u.key = k)
  and not exists (select from uploads u where u.staging_key = k)
  and not exists (select from uploads u where u.thumbnail_key = k)
order by k;

-- name: SetThumbnail :execrows
update uploads set thumbnail_key = @thumbnail_key, thumbnail_type = @thumbnail_type
where id = @id and key = @key and status = 'ready' and thumbnail_key is null;

-- name: FindStorageIdentity :one
-- What tells this database from a copy of it, as far as a restored dump is one.
select i.install_id, concat((select system_identifier from pg_control_system()), '/', 'uploads'::regclass::oid)::text as database
from installation i;

-- name: ListUploadOwners :many
-- Whose files take most, with what they hold in bytes and how many there are.
select o.owner_id, o.bytes, coalesce(s.name, concat(u.first_name, ' ', u.last_name))::text as name, (s.id is not null)::bool as service,
       (select count(*) from uploads f where f.owner_id = o.owner_id) as files
from (
    select g.owner_id, g.bytes from upload_usage g
    where (g.bytes, g.owner_id) < (@before_bytes::bigint, @before_id::bigint) and exists (select from uploads f where f.owner_id = g.owner_id)
    order by g.bytes desc, g.owner_id desc limit @max_rows
) o
join users u on u.id = o.owner_id
left join service_accounts s on s.id = o.owner_id
order by o.bytes desc, o.owner_id desc;

-- name: FindUploadOwners :many
-- Of accounts without files too.
select u.id as owner_id, coalesce(g.bytes, 0)::bigint as bytes, coalesce(s.name, concat(u.first_name, ' ', u.last_name))::text as name, (s.id is not null)::bool as service
from users u
left join upload_usage g on g.owner_id = u.id
left join service_accounts s on s.id = u.id
where u.id = any(@ids::bigint[]);

-- name: SumUploadUsage :one
select count(*) as owners, coalesce(sum(bytes), 0)::bigint as bytes from upload_usage where bytes > 0;
