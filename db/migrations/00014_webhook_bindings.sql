-- Which handlers running instances have, and an index for equal bodies.

-- +goose Up

-- A row is a binding of some instance: announced when one starts and each minute
-- while it runs. The empty event type is the provider's catch-all. What nobody
-- has announced for an hour is deleted.
create table webhook_bindings (
    provider     text        not null check (char_length(provider) between 1 and 50),
    event_type   text        not null check (char_length(event_type) <= 100),
    announced_at timestamptz not null,
    primary key (provider, event_type)
);

grant select, insert, update, delete on webhook_bindings to waypost_app;

-- The earliest delivery of a body, now of each provider by itself: one provider's
-- equal bodies are not walked through for another's. It serves every query that the
-- index before it served.
create index webhook_events_repeated on webhook_events (raw_sha256, provider, id);
drop index webhook_events_body;

-- +goose Down
create index webhook_events_body on webhook_events (raw_sha256, id);
drop index webhook_events_repeated;
drop table webhook_bindings;
