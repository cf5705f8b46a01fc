-- An index for equal bodies, made while deliveries go on.

-- +goose NO TRANSACTION
-- +goose Up

-- The earliest delivery of a body, now of each provider by itself: one provider's
-- equal bodies are not walked through for another's. It serves every query that the
-- index before it served. One that an interrupted run left behind is not valid.
drop index concurrently if exists webhook_events_repeated;
create index concurrently webhook_events_repeated on webhook_events (raw_sha256, provider, id);
drop index concurrently if exists webhook_events_body;

-- +goose Down
create index concurrently webhook_events_body on webhook_events (raw_sha256, id);
drop index concurrently if exists webhook_events_repeated;
