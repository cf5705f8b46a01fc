-- Changes of one's own e-mail address, which wait for a proof and can be taken back, and
-- what an address that was never verified may do.

-- +goose Up

-- A change is pending until its link is followed (confirmed_at) or it is over
-- (closed_at). From then on the old address is kept for the account, and whoever reads
-- its mail can take the change back, until undo_until: null where the old address was
-- never verified, so that nobody has proved to be entitled to it. Changes of an account
-- are made under its row's lock, and in order of id.
create table email_changes (
    id             bigint      generated always as identity primary key,
    user_id        bigint      not null references users (id) on delete cascade,
    -- The session that asked: a pending change ends with it. What was added to the
    -- account since its sign-in goes when the change is taken back.
    session_id     uuid        not null,
    signed_in_at   timestamptz not null,
    old_email      text        not null,
    old_email_key  text        not null,
    new_email      text        not null,
    new_email_key  text        not null,
    created_at     timestamptz not null,
    expires_at     timestamptz not null, -- of the link that confirms
    mailed_at      timestamptz,
    confirm_sha256 bytea       unique,   -- null where no link was mailed, as to a taken address
    confirmed_at   timestamptz,
    undo_sha256    bytea       unique,
    undo_until     timestamptz,
    closed_at      timestamptz,
    closed_by      text        not null default ''
        check (closed_by in ('', 'another change', 'administrator', 'undo', 'return')),
    check ((undo_sha256 is null) = (undo_until is null)),
    check ((closed_at is null) = (closed_by = ''))
);
create unique index email_changes_pending on email_changes (user_id) where confirmed_at is null and closed_at is null;
create index email_changes_user on email_changes (user_id, id);
create index email_changes_reserved on email_changes (old_email_key) where undo_until is not null and closed_at is null;
create index email_changes_expiry on email_changes (expires_at);
select audit_cover('email_changes', '{confirm_sha256,undo_sha256}');
grant select, insert, update, delete on email_changes to waypost_app;

-- An address that is kept for one account is taken for others. Only a statement that
-- begins after the insert has waited for the account that gives the address up sees
-- that it is kept; so this is a trigger, and holds for older programs, too. The time is
-- that of the row, for the service's clock decides.
-- +goose StatementBegin
create function users_email_reserved() returns trigger language plpgsql set search_path = public, pg_temp as $$
begin
    if exists (select from email_changes c where c.old_email_key = new.email_key and c.user_id <> new.id
               and c.closed_at is null and c.undo_until > new.updated_at) then
        raise exception 'the address is kept for another account' using errcode = 'unique_violation', constraint = 'users_email_key', table = 'users', schema = 'public';
    end if;
    return null;
end $$;
-- +goose StatementEnd
create trigger users_email_reserved_new after insert on users for each row execute function users_email_reserved();
create trigger users_email_reserved after update of email_key on users
    for each row when (old.email_key <> new.email_key) execute function users_email_reserved();

select set_config('waypost.actor_type', 'system', true), set_config('waypost.action', 'system:migration 24', true);

-- Operators and administrators alone make administrators, and dev made dev's accounts.
-- Those need no proof from now on; those from before have theirs by this. An invitation
-- that was not used yet is none.
update users set email_verified_at = created_at
where email_verified_at is null and password_hash <> '' and (role = 'ADMIN' or exists (select from installation where dev_since is not null));

-- A second factor that was set up before the address was verified may be a stranger's:
-- it goes when the owner of the address takes the account over. New ones are refused.
alter table totp_factors add column unproven boolean not null default false;
update totp_factors t set unproven = true from users u where u.id = t.user_id and u.email_verified_at is null;

-- +goose Down
alter table totp_factors drop column unproven;
drop trigger users_email_reserved on users;
drop trigger users_email_reserved_new on users;
drop function users_email_reserved();
drop table email_changes;
