-- name: InsertEmailChange :one
insert into email_changes (user_id, session_id, signed_in_at, old_email, old_email_key, new_email, new_email_key, created_at, expires_at)
values (@user_id, @session_id, @signed_in_at, @old_email, @old_email_key, @new_email, @new_email_key, @now, @expires_at)
returning id;

-- name: FindEmailChange :one
select * from email_changes where id = $1;

-- name: ClaimEmailChangeMail :one
-- The claim on the one mail of a change.
update email_changes set mailed_at = @now::timestamptz
where id = @id and mailed_at is null and confirmed_at is null and closed_at is null and expires_at > @now
returning *;

-- name: SetEmailChangeSecret :exec
update email_changes set confirm_sha256 = @confirm_sha256 where id = @id;

-- name: PeekEmailChange :one
-- Whether ConfirmEmailChange would succeed now.
select c.user_id from email_changes c
join users u on u.id = c.user_id and u.email_key = c.old_email_key and u.active
join auth_sessions s on s.id = c.session_id and s.revoked_at is null and s.expires_at > @now::timestamptz
where c.confirm_sha256 = @confirm_sha256 and c.confirmed_at is null and c.closed_at is null and c.expires_at > @now;

-- name: ConfirmEmailChange :one
-- The claim on a pending change, of an account that is locked and still has the address
-- that the change was asked for at, by a session that still holds.
update email_changes c set confirmed_at = @now::timestamptz
from users u, auth_sessions s
where c.confirm_sha256 = @confirm_sha256 and c.confirmed_at is null and c.closed_at is null and c.expires_at > @now
  and u.id = c.user_id and u.email_key = c.old_email_key and u.active
  and s.id = c.session_id and s.revoked_at is null and s.expires_at > @now
returning c.*;

-- name: SetEmailUndo :exec
update email_changes set undo_sha256 = @undo_sha256, undo_until = @undo_until where id = @id;

-- name: PeekEmailUndo :one
-- Whether UndoEmailChange would succeed now.
select user_id from email_changes
where undo_sha256 = @undo_sha256 and confirmed_at is not null and closed_at is null and undo_until > @now::timestamptz;

-- name: UndoEmailChange :one
-- The claim on a confirmed change, of an account that is locked.
update email_changes set closed_at = @now::timestamptz, closed_by = 'undo'
where undo_sha256 = @undo_sha256 and confirmed_at is not null and closed_at is null and undo_until > @now
returning *;

-- name: CloseEmailChanges :exec
-- Of an account, those from one on.
update email_changes set closed_at = @now::timestamptz, closed_by = @closed_by
where user_id = @user_id and id >= @from_id and closed_at is null;

-- name: ClosePendingEmailChange :exec
update email_changes set closed_at = @now::timestamptz, closed_by = 'another change'
where user_id = @user_id and confirmed_at is null and closed_at is null;

-- name: FindEmailReturn :one
-- The oldest change by which the account left an address that is still kept for it.
select id from email_changes
where user_id = @user_id and old_email_key = @email_key and closed_at is null and undo_until > @now::timestamptz
order by id limit 1;

-- name: FindPendingEmailChange :one
-- That would be confirmed from an address.
select * from email_changes
where user_id = @user_id and new_email_key = @email_key and confirmed_at is null and closed_at is null and confirm_sha256 is not null and expires_at > @now::timestamptz;

-- name: FindEmailUndo :one
-- The oldest that an address can take back.
select * from email_changes
where user_id = @user_id and old_email_key = @email_key and confirmed_at is not null and closed_at is null and undo_until > @now::timestamptz
order by id limit 1;

-- name: FindEmailHolder :one
-- The account that has an address, or another one than user_id for which it is kept.
select u.* from users u
where u.email_key = @email_key
   or exists (select from email_changes c where c.user_id = u.id and c.old_email_key = @email_key and u.id <> @user_id
              and c.closed_at is null and c.undo_until > @now::timestamptz)
order by u.email_key = @email_key desc limit 1;

-- name: MoveUser :one
-- Gives an account an address that was proved. email_key is unique, also with those
-- that are kept for other accounts.
update users set email = @email, email_key = @email_key, email_verified_at = @now::timestamptz, updated_at = @now::timestamptz
where id = @id returning *;

-- name: VoidUserPassword :exec
update users set password_hash = '', updated_at = @now::timestamptz where id = @id;

-- name: VoidAllMailTokens :exec
update mail_tokens set used_at = @now where user_id = @user_id and used_at is null;

-- name: DeleteIdentitiesSince :exec
delete from identities where user_id = @user_id and created_at >= @since;

-- name: DeleteTOTPFactorSince :execrows
delete from totp_factors where user_id = @user_id and coalesce(confirmed_at, created_at) >= @since;

-- name: DeleteUnprovenTOTPFactor :execrows
delete from totp_factors where user_id = $1 and unproven;

-- name: ProveTOTPFactor :exec
update totp_factors set unproven = false where user_id = $1 and unproven;

-- name: DeleteStaleEmailChanges :execrows
delete from email_changes
where expires_at < @before::timestamptz and (undo_until is null or undo_until < @before or closed_at < @before);
