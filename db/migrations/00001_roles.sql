-- What the application role may see of the schema's own state. Every later
-- migration grants what it creates, table by table.

-- +goose Up
grant usage on schema public to waypost_app;
grant select on goose_db_version to waypost_app;

-- +goose Down
revoke select on goose_db_version from waypost_app;
revoke usage on schema public from waypost_app;
