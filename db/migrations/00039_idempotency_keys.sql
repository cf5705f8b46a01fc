-- Answers to requests that create and carried an Idempotency-Key, for a day: the same key
-- gets the same answer. An answer is written by the transaction that did the work.

-- +goose Up
create table idempotency_keys (
    user_id      bigint      not null references users (id) on delete cascade,
    operation    text        not null check (char_length(operation) between 1 and 100),
    key_hash     bytea       not null check (octet_length(key_hash) = 32),     -- SHA-256 of the key
    request_hash bytea       not null check (octet_length(request_hash) = 32), -- SHA-256 of what was asked for
    created_at   timestamptz not null,
    answer       bytea,                                                        -- sealed; null when it carried a secret
    sealed_by    text,
    primary key (user_id, operation, key_hash),
    check ((answer is null) = (sealed_by is null))
);
create index idempotency_keys_created_at on idempotency_keys (created_at);
insert into audit_excluded (pattern, reason) values ('idempotency\_keys', 'what they made is covered by itself') on conflict do nothing;
select show_columns('idempotency_keys', '{user_id,operation,created_at}', '{key_hash,request_hash,answer,sealed_by}');
grant select, insert, update, delete on idempotency_keys to waypost_app;

-- +goose Down
drop table idempotency_keys;
