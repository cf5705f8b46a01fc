-- The ledger of the AI gateway: reservations, what was used, budgets.
--
-- Each statement that changes a meter locks the account's row (token_id 0) before its
-- token's, and a reservation before both, so that none waits for another in a circle. A
-- minute is over a minute after its first call, by the instances' clocks.

-- name: MakeAIMeters :exec
-- Rows for what is counted, where they are missing.
insert into ai_meters (user_id, token_id, since, minute_at)
select u.id, t.token_id, @since, @now from users u cross join (select distinct unnest(array[0, @token_id::bigint]) as token_id) t where u.id = @user_id
on conflict do nothing;

-- name: ReserveAICall :many
-- Keeps back what a call costs at most, for the account and its token, if both have room
-- for it; returns how either stood before, and whether it was granted. Nothing comes back
-- where MakeAIMeters is needed first.
with locked as (
    select m.user_id, m.token_id, m.since, m.spent, m.reserved, m.minute_at, m.requests, m.tokens from ai_meters m where m.user_id = sqlc.arg('user_id') and m.token_id in (0, sqlc.arg('token_id')) order by m.token_id for update
), standing as (
    select m.token_id as of_token, m.reserved,
        case when m.since = sqlc.arg('since')::date then m.spent
             else (select coalesce(sum(u.cost), 0) from ai_usage u where u.user_id = m.user_id and (m.token_id = 0 or u.token_id = m.token_id) and u.day >= sqlc.arg('since')) end as spent,
        case when r.running then m.minute_at else sqlc.arg('now') end as minute_at,
        case when r.running then m.requests else 0 end as requests,
        case when r.running then m.tokens else 0 end as tokens
    from locked m cross join lateral (select m.minute_at > sqlc.arg('now')::timestamptz - interval '1 minute' and m.minute_at < sqlc.arg('now') + interval '1 minute' as running) r
), allowed as (
    select coalesce((select b.budget from ai_budgets b where b.user_id = sqlc.arg('user_id')), sqlc.arg('budget')::numeric) as budget
), verdict as (
    select count(*) = case when sqlc.arg('token_id') = 0 then 1 else 2 end and bool_and(
        (sqlc.arg('cost')::numeric = 0 or s.spent + s.reserved + sqlc.arg('cost') <= a.budget) and s.requests < sqlc.arg('rpm')::integer and s.tokens + sqlc.arg('tokens')::bigint <= sqlc.arg('tpm')::bigint) as granted
    from standing s cross join allowed a
), kept as (
    insert into ai_reservations (id, user_id, token_id, model, upstream, input_tokens, output_tokens, cost, minute_at, minute_tokens, lease_until)
    select sqlc.arg('id'), sqlc.arg('user_id'), sqlc.arg('token_id'), sqlc.arg('model'), sqlc.arg('upstream'), sqlc.arg('input_tokens'), sqlc.arg('output_tokens'), sqlc.arg('cost'), s.minute_at, sqlc.arg('tokens'), now() + make_interval(secs => sqlc.arg('lease_seconds'))
    from verdict v join standing s on s.of_token = 0 where v.granted
), counted as (
    update ai_meters m set since = sqlc.arg('since'), spent = s.spent, reserved = s.reserved + sqlc.arg('cost'), minute_at = s.minute_at, requests = s.requests + 1, tokens = s.tokens + sqlc.arg('tokens')
    from standing s cross join verdict v where v.granted and m.user_id = sqlc.arg('user_id') and m.token_id = s.of_token
)
select s.of_token, s.spent::numeric as spent, s.reserved, s.minute_at::timestamptz as minute_at, s.requests::integer as requests, s.tokens::bigint as tokens, a.budget::numeric as budget, coalesce(v.granted, false)::boolean as granted
from standing s cross join allowed a cross join verdict v order by s.of_token;

-- name: ResizeAICall :one
-- Gives a call that is on another worst case, if there is room for it. False also for a
-- call that is not on any more.
with call as (
    select r.user_id, r.token_id, r.cost from ai_reservations r where r.id = sqlc.arg('id') for update
), locked as (
    select m.user_id, m.token_id, m.spent, m.reserved, c.cost as held from ai_meters m join call c on c.user_id = m.user_id where m.token_id in (0, c.token_id) order by m.token_id for update of m
), allowed as (
    select coalesce((select b.budget from ai_budgets b join call c on c.user_id = b.user_id), sqlc.arg('budget')::numeric) as budget
), verdict as (
    select count(*) > 0 and bool_and(sqlc.arg('cost')::numeric = 0 or m.reserved - m.held + sqlc.arg('cost') <= a.budget - m.spent) as granted from locked m cross join allowed a
), resized as (
    update ai_reservations r set upstream = sqlc.arg('upstream'), input_tokens = sqlc.arg('input_tokens'), output_tokens = sqlc.arg('output_tokens'), cost = sqlc.arg('cost')
    from verdict v where v.granted and r.id = sqlc.arg('id')
), counted as (
    update ai_meters m set reserved = l.reserved - l.held + sqlc.arg('cost')
    from locked l cross join verdict v where v.granted and m.user_id = l.user_id and m.token_id = l.token_id
)
select coalesce(granted, false)::boolean as granted from verdict;

-- name: SettleAICall :one
-- Ends a reservation, once: books what the call used, or, at its worst, what was reserved;
-- a call that reached no upstream is not booked. With expired it does so only once the
-- lease is over. Returns how many there were to end, 0 or 1.
with quick as (
    select set_config('synchronous_commit', case when sqlc.arg('durable')::boolean then 'on' else 'off' end, true) as setting
), ended as (
    delete from ai_reservations r using quick where r.id = sqlc.arg('id') and (not sqlc.arg('expired')::boolean or r.lease_until < now())
    returning r.id, r.user_id, r.token_id, r.model, r.upstream, r.input_tokens, r.output_tokens, r.cost, r.minute_at, r.minute_tokens
), booked as (
    select e.id, e.user_id, e.token_id, e.model, e.upstream, e.cost, e.minute_at, e.minute_tokens, case when sqlc.arg('worst')::boolean then e.input_tokens else sqlc.arg('input_tokens')::bigint end as used_input, case when sqlc.arg('worst') then e.output_tokens else sqlc.arg('output_tokens')::bigint end as used_output,
        case when not sqlc.arg('reached')::boolean then 0 when sqlc.arg('worst') then e.cost else sqlc.arg('cost')::numeric end as used_cost
    from ended e
), locked as (
    select m.user_id, m.token_id, m.since, m.spent, m.reserved, m.minute_at, m.tokens from ai_meters m join booked b on b.user_id = m.user_id where m.token_id in (0, b.token_id) order by m.token_id for update of m
), counted as (
    update ai_meters m set since = sqlc.arg('since')::date,
        spent = b.used_cost + case when l.since = sqlc.arg('since') then l.spent
            else (select coalesce(sum(u.cost), 0) from ai_usage u where u.user_id = l.user_id and (l.token_id = 0 or u.token_id = l.token_id) and u.day >= sqlc.arg('since')) end,
        reserved = greatest(l.reserved - b.cost, 0),
        tokens = case when l.minute_at = b.minute_at then greatest(l.tokens - b.minute_tokens + case when sqlc.arg('reached') then b.used_input + b.used_output else 0 end, 0) else l.tokens end
    from locked l cross join booked b where m.user_id = l.user_id and m.token_id = l.token_id
), entered as (
    insert into ai_calls (id, at, user_id, token_id, model, upstream, input_tokens, output_tokens, cost, outcome, estimated)
    select b.id, sqlc.arg('now'), b.user_id, b.token_id, b.model, b.upstream, b.used_input, b.used_output, b.used_cost, sqlc.arg('outcome'), sqlc.arg('estimated') from booked b where sqlc.arg('reached')
), summed as (
    insert into ai_usage as u (day, user_id, token_id, model, requests, input_tokens, output_tokens, cost)
    select (sqlc.arg('now') at time zone 'UTC')::date, b.user_id, b.token_id, b.model, 1, b.used_input, b.used_output, b.used_cost from booked b where sqlc.arg('reached')
    on conflict (user_id, day, model, token_id) do update set requests = u.requests + 1, input_tokens = u.input_tokens + excluded.input_tokens,
        output_tokens = u.output_tokens + excluded.output_tokens, cost = u.cost + excluded.cost
)
select count(*) from booked;

-- name: RenewAICalls :exec
-- Says that these calls are still on. Leases are by the database's clock, which all
-- instances share.
update ai_reservations set lease_until = now() + make_interval(secs => @lease_seconds) where id = any (@ids::uuid[]);

-- name: ListExpiredAICalls :many
select id from ai_reservations where lease_until < now() order by lease_until limit $1;

-- name: ForgetAIMeters :execrows
-- Drops the counts of tokens that are gone.
delete from ai_meters m where m.token_id <> 0 and m.reserved = 0 and m.minute_at < @before and not exists (select from api_tokens t where t.id = m.token_id);

-- name: FindAICaller :one
-- The role of an account that may still call, by itself or by its token, at this moment.
select coalesce(s.role, u.role)::text as role from users u left join service_accounts s on s.id = u.id
where u.id = @user_id and coalesce(s.active, u.active)
  and (@token_id::bigint = 0 or exists (select from api_tokens t where t.id = @token_id and t.user_id = u.id and t.revoked_at is null and (t.expires_at is null or t.expires_at > @now::timestamptz)));

-- name: FindAIMeters :many
-- How an account and its token stand; no row where nothing was counted yet.
select m.token_id, m.spent, m.reserved, m.minute_at, m.requests, m.tokens, (m.since = @since::date)::boolean as current from ai_meters m where m.user_id = @user_id and m.token_id in (0, @token_id::bigint) order by m.token_id;

-- name: FindAIBudget :one
-- An account's own budget, null for the configured one; no row for no such account.
select b.budget from users u left join ai_budgets b on b.user_id = u.id where u.id = @user_id;

-- name: SumAIUsage :one
select coalesce(sum(cost), 0)::numeric as cost from ai_usage where user_id = @user_id and day >= @since;

-- name: SetAIBudget :execrows
insert into ai_budgets (user_id, budget, updated_at) select u.id, @budget, @now from users u where u.id = @user_id
on conflict (user_id) do update set budget = excluded.budget, updated_at = excluded.updated_at;

-- name: ClearAIBudget :execrows
delete from ai_budgets where user_id = @user_id;

-- name: ListAIUsage :many
-- Newest days first, within a day by model and account; of one account, or of all.
select day, user_id, model, sum(requests)::bigint as requests, sum(input_tokens)::bigint as input_tokens, sum(output_tokens)::bigint as output_tokens, sum(cost)::numeric as cost
from ai_usage
where (@anyones::boolean or user_id = @user_id) and day between @first and @last
  and (day < @after_day or day = @after_day and (model, user_id) > (@after_model::text, @after_user::bigint))
group by day, model, user_id order by day desc, model, user_id limit @most;

-- name: CountAIUsage :one
select count(*) from (select from ai_usage where (@anyones::boolean or user_id = @user_id) and day between @first and @last group by day, model, user_id) g;

-- name: ListAIDays :many
-- What all used, or one account, day by day; days without calls are left out.
select day, sum(requests)::bigint as requests, sum(cost)::numeric as cost
from ai_usage where (@anyones::boolean or user_id = @user_id) and day between @first and @last group by day order by day;
