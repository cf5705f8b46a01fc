-- The AI gateway: what accounts may spend on language models, and what they spent.

-- +goose Up

-- Budgets that an administrator set; accounts without a row have the configured one.
-- Amounts are of the currency in which prices are configured, exact to 12 decimals.
create table ai_budgets (
    user_id    bigint      primary key references users (id) on delete cascade,
    budget     numeric     not null check (budget >= 0),
    updated_at timestamptz not null
);
select audit_cover('ai_budgets', '{}', '{updated_at}');
select show_columns('ai_budgets', '{user_id,budget,updated_at}');

-- What is counted against limits, for each account (token_id 0) and each of its API
-- tokens. A call changes the account's row first, whose lock makes calls of one account
-- take turns.
create table ai_meters (
    user_id   bigint      not null references users (id) on delete cascade,
    token_id  bigint      not null default 0,
    since     date        not null, -- the first day (UTC) of what spent is the sum of
    spent     numeric     not null default 0 check (spent >= 0),
    reserved  numeric     not null default 0 check (reserved >= 0), -- by calls that are on
    minute_at timestamptz not null, -- when the minute began that the next two are of
    requests  integer     not null default 0 check (requests >= 0),
    tokens    bigint      not null default 0 check (tokens >= 0),
    primary key (user_id, token_id)
);
insert into audit_excluded (pattern, reason) values ('ai\_meters', 'counters: sums of ai_calls and ai_reservations, and calls of the current minute');
select show_columns('ai_meters', '{user_id,token_id,since,spent,reserved,minute_at,requests,tokens}');

-- Calls that are on, with the most that each can cost. The process that makes a call
-- renews its lease; what a dead one left is booked as it was reserved.
create table ai_reservations (
    id            uuid        primary key,
    user_id       bigint      not null,
    token_id      bigint      not null, -- 0 for none
    model         text        not null,
    upstream      text        not null,
    input_tokens  bigint      not null check (input_tokens >= 0),
    output_tokens bigint      not null check (output_tokens >= 0),
    cost          numeric     not null check (cost >= 0),
    minute_at     timestamptz not null, -- the minute in which it was counted, with that many tokens
    minute_tokens bigint      not null check (minute_tokens >= 0),
    lease_until   timestamptz not null
);
create index ai_reservations_lease on ai_reservations (lease_until);
insert into audit_excluded (pattern, reason) values ('ai\_reservations', 'calls that are on: what becomes of them is in ai_calls');
select show_columns('ai_reservations', '{id,user_id,token_id,model,upstream,input_tokens,output_tokens,cost,minute_at,minute_tokens,lease_until}');

-- Every call that reached an upstream, booked once, under the id of its reservation.
-- It outlives the account: money was spent.
create table ai_calls (
    id            uuid        primary key,
    at            timestamptz not null, -- when it ended
    user_id       bigint      not null,
    token_id      bigint      not null, -- 0 for none
    model         text        not null, -- as clients name it
    upstream      text        not null, -- the last that was asked
    input_tokens  bigint      not null check (input_tokens >= 0),
    output_tokens bigint      not null check (output_tokens >= 0),
    cost          numeric     not null check (cost >= 0),
    -- How it ended: completed; aborted by the client; cut or failed by the upstream; lost
    -- by a crash of this service, and booked at its worst case.
    outcome       text        not null check (outcome in ('completed', 'aborted', 'cut', 'failed', 'lost')),
    estimated     boolean     not null  -- whether not all tokens are as the upstream stated them
);
create index ai_calls_user on ai_calls (user_id, at desc);
select audit_cover('ai_calls');
select show_columns('ai_calls', '{id,at,user_id,token_id,model,upstream,input_tokens,output_tokens,cost,outcome,estimated}');

-- The same by day (UTC), changed in the same transaction.
create table ai_usage (
    day           date    not null,
    user_id       bigint  not null,
    token_id      bigint  not null,
    model         text    not null,
    requests      bigint  not null,
    input_tokens  bigint  not null,
    output_tokens bigint  not null,
    cost          numeric not null,
    primary key (user_id, day, model, token_id)
);
create index ai_usage_days on ai_usage (day desc, model, user_id);
insert into audit_excluded (pattern, reason) values ('ai\_usage', 'sums of ai_calls');
select show_columns('ai_usage', '{day,user_id,token_id,model,requests,input_tokens,output_tokens,cost}');

grant select, insert, update, delete on ai_budgets, ai_meters, ai_reservations to waypost_app;
grant select, insert on ai_calls to waypost_app;
grant select, insert, update on ai_usage to waypost_app;

-- +goose Down
drop table ai_usage;
drop table ai_calls;
drop table ai_reservations;
drop table ai_meters;
drop table ai_budgets;
delete from audit_excluded where pattern in ('ai\_meters', 'ai\_reservations', 'ai\_usage');
delete from visible_columns where table_name in ('ai_usage', 'ai_calls', 'ai_reservations', 'ai_meters', 'ai_budgets');
