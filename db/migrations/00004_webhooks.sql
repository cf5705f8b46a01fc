-- Deliveries from webhook providers.

-- +goose Up

-- raw is the delivery as it was sent, and the only copy of it: jsonb would refuse
-- some bodies and change others, so nothing here parses it.
-- While status is pending, whoever holds lease_id until lease_until may run the
-- handler; an outcome is recorded only under the lease that it was won with.
create table webhook_events (
    id            uuid        primary key,
    provider      text        not null check (char_length(provider) between 1 and 50),
    event_type    text        not null check (char_length(event_type) <= 100),
    external_id   text        not null check (char_length(external_id) <= 255),
    status        text        not null default 'pending' check (status in ('pending', 'processed', 'failed')),
    handler_error text        not null default '',
    retry_count   integer     not null default 0 check (retry_count >= 0),
    processed_at  timestamptz,
    created_at    timestamptz not null,
    raw           bytea       not null,
    raw_sha256    bytea       not null check (octet_length(raw_sha256) = 32),
    headers       jsonb       not null,
    lease_id      uuid,
    lease_until   timestamptz,
    constraint webhook_events_lease check ((status = 'pending') = (lease_id is not null) and (lease_id is null) = (lease_until is null)),
    constraint webhook_events_processed check (status <> 'processed' or processed_at is not null)
);
create unique index webhook_events_dedupe on webhook_events (external_id, provider) where external_id <> '';
create index webhook_events_newest on webhook_events (created_at desc, id desc);
create index webhook_events_provider on webhook_events (provider, created_at desc, id desc);
create index webhook_events_type on webhook_events (event_type, created_at desc, id desc);
create index webhook_events_failed on webhook_events (created_at desc, id desc) where status = 'failed';
create index webhook_events_pending on webhook_events (lease_until) where status = 'pending';
-- Ids are in order of time, so the first entry of a body is its earliest delivery.
create index webhook_events_body on webhook_events (raw_sha256, id);

grant select, insert, update on webhook_events to waypost_app;

-- +goose Down
drop table webhook_events;
