-- The outbox: every mail, written in the transaction of what caused it.

-- +goose Up
-- text and html have a placeholder where a link's secret goes. The secret itself is
-- sealed, and is there only until the mail is final.
create table mails (
    id            bigint      generated always as identity primary key,
    user_id       bigint      references users (id) on delete cascade, -- whom it is about; null for nobody
    recipient     text        not null,
    template      text        not null,
    subject       text        not null,
    text          text        not null,
    html          text        not null,
    secret        bytea,
    secret_key_id text,
    message_id    text        not null,
    cause         text        unique, -- of a mail that is sent once for that, however often it is told
    status        text        not null check (status in ('queued', 'sent', 'failed', 'suppressed')),
    error         text        not null default '',
    attempts      integer     not null default 0,
    job_id        bigint,
    claimed_until timestamptz,
    created_at    timestamptz not null,
    queued_at     timestamptz not null,
    sent_at       timestamptz,
    check ((secret is null) = (secret_key_id is null)),
    check (status = 'queued' or secret is null)
);
create index mails_recipient on mails (lower(recipient), id);
create index mails_status on mails (status, id);
create index mails_template on mails (template, id);
create index mails_created on mails (created_at);
create index mails_user on mails (user_id);
select audit_cover('mails', '{text,html,secret}', '{error,attempts,job_id,claimed_until}');

-- When an address, by its digest, got the latest mails of a sort.
create table mail_allowances (
    address   bytea         not null,
    allowance text          not null,
    times     timestamptz[] not null,
    forget_at timestamptz   not null,
    primary key (address, allowance)
);
create index mail_allowances_forget on mail_allowances (forget_at);
insert into audit_excluded (pattern, reason) values ('mail\_allowances', 'counters');

grant select, insert, update, delete on mails, mail_allowances to waypost_app;

-- +goose Down
delete from audit_excluded where pattern = 'mail\_allowances';
drop table mail_allowances, mails;
