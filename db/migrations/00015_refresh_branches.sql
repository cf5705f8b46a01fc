-- A family's refresh tokens by generation, so that a look for younger ones that
-- were spent costs the same however often a session was refreshed.

-- +goose Up
create index refresh_tokens_family on refresh_tokens (session_id, generation);
drop index refresh_tokens_session;

-- +goose Down
create index refresh_tokens_session on refresh_tokens (session_id);
drop index refresh_tokens_family;
