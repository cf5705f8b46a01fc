-- Indexes that the lists of deliveries and the counts of a provider are read from, made
-- while deliveries go on. What an interrupted run left behind is not valid.

-- +goose NO TRANSACTION
-- +goose Up

-- A provider's failures, and which of them are of a type. Only a failure writes to it.
drop index concurrently if exists webhook_events_failed_of;
create index concurrently webhook_events_failed_of on webhook_events (provider, created_at desc, id desc) include (event_type) where status = 'failed';
-- A type's events provider by provider: a type that a provider never had is not looked for
-- among those of others. It takes the place of the index by type alone.
drop index concurrently if exists webhook_events_type_of;
create index concurrently webhook_events_type_of on webhook_events (event_type, provider, created_at desc, id desc);
drop index concurrently if exists webhook_events_type;

-- +goose Down
create index concurrently webhook_events_type on webhook_events (event_type, created_at desc, id desc);
drop index concurrently if exists webhook_events_type_of;
drop index concurrently if exists webhook_events_failed_of;
