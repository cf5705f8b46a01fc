-- name: UpsertTOTPFactor :one
-- No row when the account has a confirmed one.
insert into totp_factors (user_id, secret, secret_key_id, created_at) values (@user_id, @secret, @secret_key_id, @now)
on conflict (user_id) do update
set secret = excluded.secret, secret_key_id = excluded.secret_key_id, last_step = 0, created_at = excluded.created_at
where totp_factors.confirmed_at is null
returning user_id;

-- name: FindTOTPFactor :one
select * from totp_factors where user_id = $1;

-- name: HasTOTP :one
select exists (select 1 from totp_factors where user_id = $1 and confirmed_at is not null)::bool;

-- name: ConfirmTOTPFactor :one
-- Only the very secret that the code was checked against.
update totp_factors set confirmed_at = @now::timestamptz, last_step = @step
where user_id = @user_id and confirmed_at is null and secret = @secret
returning user_id;

-- name: SpendTOTPStep :one
-- The claim on a code: of several with one, one gets a row (RFC 6238 section 5.2).
update totp_factors set last_step = @step where user_id = @user_id and confirmed_at is not null and last_step < @step
returning user_id;

-- name: DeleteTOTPFactor :exec
delete from totp_factors where user_id = $1;

-- name: DeleteRecoveryCodes :exec
delete from recovery_codes where user_id = $1;

-- name: InsertRecoveryCodes :exec
insert into recovery_codes (user_id, code_sha256) select @user_id, unnest(@codes_sha256::bytea[]);

-- name: SpendRecoveryCode :one
update recovery_codes set used_at = @now::timestamptz where user_id = @user_id and code_sha256 = @code_sha256 and used_at is null
returning user_id;

-- name: CountRecoveryCodes :one
select count(*) from recovery_codes where user_id = $1 and used_at is null;

-- name: ListStaleTOTPFactors :many
select * from totp_factors where secret_key_id <> @current_key_id and user_id > @after_id order by user_id limit 100;

-- name: ResealTOTPFactor :exec
update totp_factors set secret = @secret, secret_key_id = @secret_key_id
where user_id = @user_id and secret = @old_secret;
