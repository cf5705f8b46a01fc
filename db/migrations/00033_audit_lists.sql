-- Indexes that the audit log's lists by table and by kind of actor are read from, made while
-- entries are sealed. What an interrupted run left behind is not valid.

-- +goose NO TRANSACTION
-- +goose Up
drop index concurrently if exists audit_log_table;
create index concurrently audit_log_table on audit_log (table_name, seq);
drop index concurrently if exists audit_log_actor_type;
create index concurrently audit_log_actor_type on audit_log (actor_type, seq);

-- +goose Down
drop index concurrently if exists audit_log_actor_type;
drop index concurrently if exists audit_log_table;
