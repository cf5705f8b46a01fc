-- Which handlers running instances have.

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

-- +goose Down
drop table webhook_bindings;
