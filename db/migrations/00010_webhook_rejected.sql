-- Refused webhook deliveries, and alerts about failing providers.

-- +goose Up

-- A log, not a ledger: what is written to it is bounded, and what is not written is
-- counted. provider is what the sender asked for, known or not, cut to 50 characters.
create table webhook_rejected (
    id         uuid        primary key,
    provider   text        not null check (char_length(provider) <= 50),
    reason     text        not null check (char_length(reason) between 1 and 50),
    address    inet,
    headers    jsonb       not null,
    size       bigint      not null check (size >= -1),
    created_at timestamptz not null
);
-- Ids are in order of time.
create index webhook_rejected_provider on webhook_rejected (provider, id desc) where reason <> 'unknown_provider';
create index webhook_rejected_unknown on webhook_rejected (id desc) where reason = 'unknown_provider';
create index webhook_rejected_reason on webhook_rejected (reason, id desc);
create index webhook_rejected_age on webhook_rejected (created_at);

-- A row is a failure streak that an alert was sent about; without one the next
-- streak may be alerted about.
create table webhook_alerts (
    provider   text        primary key,
    streak     bigint      not null,
    alerted_at timestamptz not null
);

grant select, insert, delete on webhook_rejected, webhook_alerts to waypost_app;

-- +goose Down
drop table webhook_alerts;
drop table webhook_rejected;
