-- name: InsertMail :one
-- No row when there is a mail for that cause already.
insert into mails (user_id, recipient, template, subject, text, html, secret, secret_key_id, message_id, cause, status, error, created_at, queued_at)
values (sqlc.narg('user_id'), @recipient, @template, @subject, @text, @html, sqlc.narg('secret'), sqlc.narg('secret_key_id'), @message_id,
        sqlc.narg('cause'), @status, @error, @now, @now)
on conflict (cause) do nothing
returning *;

-- name: SetMailJob :exec
update mails set job_id = @job_id where id = @id;

-- name: TakeMailAllowance :execrows
-- One more mail to the address, unless it got as many as it may since then. The row is
-- locked until the transaction ends, so that of two at once the second sees the first.
insert into mail_allowances (address, allowance, times, forget_at)
values (@address, @allowance, array[@now::timestamptz], @forget_at)
on conflict (address, allowance) do update set
    times = array(select t from unnest(mail_allowances.times) t where t > @since::timestamptz) || excluded.times,
    forget_at = excluded.forget_at
where (select count(*) from unnest(mail_allowances.times) t where t > @since::timestamptz) < @most::int;

-- name: SweepMailAllowances :execrows
delete from mail_allowances where forget_at < $1;

-- name: ClaimMail :one
-- The mail, for one attempt at a time to send it.
update mails set attempts = attempts + 1, claimed_until = @claimed_until
where id = @id and status = 'queued' and (claimed_until is null or claimed_until <= @now)
returning *;

-- name: IsMailQueued :one
select exists (select 1 from mails where id = $1 and status = 'queued')::bool;

-- name: EndMail :execrows
-- message_id tells apart a mail that was queued again meanwhile.
update mails set status = @status, error = @error, sent_at = sqlc.narg('sent_at'), secret = null, secret_key_id = null, claimed_until = null
where id = @id and message_id = @message_id and status = 'queued';

-- name: ReleaseMail :exec
-- After an attempt that failed and is not the last.
update mails set error = @error, claimed_until = null
where id = @id and message_id = @message_id and status = 'queued';

-- name: FindMail :one
select * from mails where id = $1;

-- name: LockMail :one
select * from mails where id = $1 for update;

-- name: QueueMailAgain :one
update mails set subject = @subject, text = @text, html = @html, secret = sqlc.narg('secret'), secret_key_id = sqlc.narg('secret_key_id'),
    message_id = @message_id, status = @status, error = @error, attempts = 0, claimed_until = null, queued_at = @now, sent_at = null
where id = @id
returning *;

-- name: ListMailAdmins :many
-- Whom alerts go to, in the order of addresses, which is that of locks.
select id, email, first_name from users where role = 'ADMIN' and active order by email_key;

-- name: ListWaitingMails :many
-- Mails that wait and that nobody is sending at the moment.
select id, message_id, job_id, queued_at, error from mails
where status = 'queued' and (claimed_until is null or claimed_until <= @now::timestamptz)
order by id;

-- name: EndLostMail :execrows
-- Unless somebody began to send it.
update mails set status = 'failed', error = @error, secret = null, secret_key_id = null, claimed_until = null
where id = @id and message_id = @message_id and status = 'queued' and (claimed_until is null or claimed_until <= @now::timestamptz);

-- name: DeleteOldMails :execrows
delete from mails where created_at < $1 and status <> 'queued';

-- name: AnyStuckMails :one
-- Whether mails wait that several attempts could not send.
select exists (select 1 from mails where status = 'queued' and attempts >= 3)::bool;
