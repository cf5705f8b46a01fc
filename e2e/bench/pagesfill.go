package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/internal/account"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/telemetry"
)

const (
	pagesEmail    = "ada@example.com"
	pagesPassword = "correct horse battery staple"
	// pagesProcesses is how many processes have measured themselves for a day, and
	// pagesRoutes how many routes each served in each minute.
	pagesProcesses, pagesRoutes = 3, 60
	// rejectedOfEach is how many refused deliveries the service keeps of each provider.
	rejectedOfEach = 1000
)

// pagesConfig declares providers beside the two that are built in. None but acme has a
// handler; nothing ever came for never, little and long ago for quiet.
const pagesConfig = `webhooks:
  providers:
    - {name: acme, secret_env: BENCH_SECRET, verifier: {type: hmac, header: X-Acme-Signature}, extractor: {type: json, type_field: type, id_field: id}}
    - {name: modern, secret_env: BENCH_SECRET, verifier: {type: hmac, header: X-Modern-Signature}, extractor: {type: json, type_field: type, id_field: id}}
    - {name: quiet, secret_env: BENCH_SECRET, verifier: {type: hmac, header: X-Quiet-Signature}, extractor: {type: json, type_field: type, id_field: id}}
    - {name: never, secret_env: BENCH_SECRET, verifier: {type: hmac, header: X-Never-Signature}, extractor: {type: json, type_field: type, id_field: id}}
  handlers:
    - {provider: acme, event: "", forward: {url: "http://127.0.0.1:9", secret_env: BENCH_FORWARD_SECRET}}
`

// fillDesk writes what the pages show: deliveries as many as asked for, a tenth as many
// of everything else, sites with all events, and a day's measurements. Rows come by
// INSERT ... SELECT; all but deliveries with their audit entries. What a kept database has
// is not written again, except for what the service deletes after a day.
func (w *world) fillDesk(ctx context.Context) (filled, error) {
	f, err := w.fill(ctx, yearDays, w.events*7/10, w.events*2/10, w.events/10)
	if err != nil {
		return f, err
	}
	var there int
	if err := w.owner.QueryRow(ctx, `select count(*) from webhook_events`).Scan(&there); err != nil {
		return f, err
	}
	if there == 0 {
		if err := w.fillRows(ctx); err != nil {
			return f, err
		}
	} else if there < w.deliveries || there > w.deliveries+w.deliveries/10 {
		return f, fmt.Errorf("%s holds %d deliveries: remove it", w.data, there)
	}
	return f, errors.Join(w.fillJobs(ctx), w.fillMinutes(ctx))
}

// deskRows is a statement that writes n rows, numbered i from 1, as $1.
type deskRows struct {
	what string
	of   int // n
	sql  string
}

func (w *world) fillRows(ctx context.Context) error {
	accounts, err := account.New(account.Options{DB: w.db})
	if err != nil {
		return err
	}
	_, err = accounts.Create(ctx, account.NewUser{FirstName: "Ada", LastName: "Lovelace", Email: pagesEmail, Password: pagesPassword, Role: identity.Admin})
	if err != nil {
		return err
	}
	few := w.deliveries / 10
	for _, f := range []deskRows{
		{"deliveries", w.deliveries, deliveriesSQL},
		{"earlier attempts", w.deliveries, attemptsSQL},
		{"refused deliveries", rejectedOfEach, rejectedSQL},
		{"accounts", few, accountsSQL},
		{"sessions", few, sessionsSQL},
		{"mails", few, mailsSQL},
		{"files", few, filesSQL},
	} {
		if err := w.fillWith(ctx, f); err != nil {
			return err
		}
	}
	started := time.Now()
	for n := 1; n > 0; {
		if err := w.owner.QueryRow(ctx, `select audit_seal(10000)`).Scan(&n); err != nil {
			return err
		}
	}
	_, err = w.owner.Exec(ctx, `vacuum (analyze)`)
	fmt.Printf("   audit entries sealed in %v\n", time.Since(started).Round(time.Second))
	return err
}

// fillWith runs a statement of deskRows, in parts whose audit entries have different actors. The
// deliveries' triggers are off meanwhile: they write one entry for each batch, which no
// page shows otherwise than others.
func (w *world) fillWith(ctx context.Context, f deskRows) error {
	started := time.Now()
	if _, err := w.owner.Exec(ctx, `alter table webhook_events disable trigger user`); err != nil {
		return err
	}
	const part = 5000
	for from := 1; from <= f.of; from += part {
		tx, err := w.owner.Begin(ctx)
		if err != nil {
			return err
		}
		if _, err = tx.Exec(ctx, `select set_config('waypost.actor_type', 'user', true), set_config('waypost.actor_id', $1, true),
			set_config('waypost.action', 'bench-'||$2::text, true), set_config('waypost.request_id', $1||'-'||$3::text, true)`,
			strconv.Itoa(1+from/part), f.what, strconv.Itoa(from)); err == nil {
			_, err = tx.Exec(ctx, f.sql, f.of, from, min(from+part-1, f.of))
		}
		if err == nil {
			err = tx.Commit(ctx)
		}
		if err != nil {
			_ = tx.Rollback(ctx)
			return fmt.Errorf("%s: %w", f.what, err)
		}
	}
	for _, name := range []string{"insert", "update", "delete", "truncate"} {
		if _, err := w.owner.Exec(ctx, `alter table webhook_events enable always trigger audit_`+name); err != nil {
			return err
		}
	}
	fmt.Printf("   %s: %d in %v\n", f.what, f.of, time.Since(started).Round(time.Second))
	return nil
}

// A delivery's number decides everything about it. Of payment, 40 %, each has an id;
// codehost, 30 %, has no handler any more, a third of its bodies are equal and without an
// id, and its few failures are its oldest; acme has 25 %; quiet has a thousandth of the
// oldest tenth. 2 % have failed, half a percent of payment's and acme's newest wait under another process's lease.
const deliveriesSQL = `
insert into webhook_events (id, provider, event_type, external_id, status, handler_error, retry_count, processed_at, created_at,
                            raw, raw_sha256, headers, lease_id, lease_until, attempts, tries, attempt_at, attempt_ms)
select overlay(overlay(substr(lpad(to_hex((extract(epoch from e.at) * 1000)::bigint), 12, '0') || md5(e.i::text), 1, 32) placing '7' from 13) placing '8' from 17)::uuid,
       e.provider, e.type, e.external_id, e.status, case when e.status = 'failed' then 'The target answered 503.' else '' end, 0,
       case when e.status = 'processed' then e.at end, e.at, e.raw, sha256(e.raw),
       '{"Content-Type": ["application/json"], "User-Agent": ["bench/1"], "Content-Length": ["400"]}',
       case when e.status = 'pending' then gen_random_uuid() end, case when e.status = 'pending' then now() + interval '30 days' end,
       e.attempts, e.attempts, case when e.attempts > 0 then e.at end, case when e.attempts > 0 and e.status <> 'pending' then 12.5 end
from (
    select h.*,
           case when h.status = 'failed' then 5 when h.provider in ('payment', 'acme') then 1 else 0 end as attempts,
           case when h.equal then '' else 'evt_' || h.i end as external_id,
           case when h.equal then '{}'::bytea
                else convert_to(jsonb_build_object('id', 'evt_' || h.i, 'type', h.type, 'data', jsonb_build_object('amount', h.i % 9973, 'currency', 'EUR', 'customer', md5(h.i::text), 'note', repeat('lorem ipsum ', 20)))::text, 'UTF8') end as raw
    from (
        select p.*,
               case p.provider when 'payment' then 'payment.' || (array['succeeded', 'failed', 'refunded', 'disputed'])[1 + p.i % 4]
                               when 'codehost' then (array['push', 'issues', 'pull_request'])[1 + p.i % 3]
                               when 'acme' then case when p.i % 1000 = 7 then 'order.lost' else 'order.paid' end else 'thing.made' end as type,
               p.provider = 'codehost' and p.hash % 3 = 0 as equal,
               case when p.provider in ('payment', 'acme') and p.hash % 997 < 20 or p.provider = 'codehost' and p.i < $1 / 100 and p.hash % 7 = 0 then 'failed'
                    when p.provider in ('payment', 'acme') and p.i > $1 * 8 / 10 and p.hash % 997 < 45 then 'pending' else 'processed' end as status
        from (
            select i, i * 2654435761 % 4294967296 / 1000 as hash, now() - ($1::int - i) * (interval '90 days' / $1::int) as at,
                   case when b < 400 then 'payment' when b < 700 then 'codehost' when b < 950 then 'acme' when b = 999 and i < $1 / 10 then 'quiet' else 'modern' end as provider
            from (select i::bigint, i::bigint * 2654435761 % 4294967296 % 1000 as b from generate_series($2::int, $3::int) i) n
        ) p
    ) h
) e`

// What failed has four attempts more than the one that its row has.
const attemptsSQL = `
insert into webhook_attempts (event_id, number, at, outcome, error, duration_ms)
select e.id, n, e.created_at - (5 - n) * interval '1 minute', 'failed', 'The target answered 503.', 20
from (select id, created_at from webhook_events where status = 'failed' order by id offset $2::int - 1 limit $3::int - $2::int + 1) e, generate_series(1, 4) n
where $1::int > 0`

const rejectedSQL = `
insert into webhook_rejected (id, provider, reason, address, headers, size, created_at)
select overlay(overlay(substr(lpad(to_hex((extract(epoch from now()) * 1000)::bigint - ($1::int - i) * 60000), 12, '0') || md5(p || i), 1, 32) placing '7' from 13) placing '8' from 17)::uuid,
       p, case when p = 'unknown' then 'unknown_provider' else 'signature_mismatch' end, '203.0.113.9', '{"User-Agent": ["bench/1"], "Content-Type": ["application/json"]}', 400, now() - ($1::int - i) * interval '1 minute'
from generate_series($2::int, $3::int) i, unnest(array['payment', 'codehost', 'acme', 'modern', 'unknown']) p`

const accountsSQL = `
insert into users (first_name, last_name, email, email_key, password_hash, role, active, created_at, updated_at, email_verified_at)
select 'Given' || i % 977, 'Family' || i % 7919, 'Person' || i || '@example.com', 'person' || i || '@example.com', 'x',
       case when i % 1000 = 0 then 'EDITOR' else 'USER' end, i % 50 <> 0, at, at, case when i % 10 > 0 then at end
from (select i, now() - ($1::int - i) * interval '5 minutes' as at from generate_series($2::int, $3::int) i) n`

const sessionsSQL = `
insert into auth_sessions (id, user_id, created_at, expires_at, revoked_at, methods, authenticated_at, last_used_at, address, user_agent)
select gen_random_uuid(), u.id, u.created_at, now() + interval '20 days', case when u.id % 3 = 0 then now() end, '{pwd}', u.created_at, u.created_at, '203.0.113.' || u.id % 250, 'Mozilla/5.0 (bench)'
from users u where $1::int > 0 and u.id between $2::int and $3::int`

const mailsSQL = `
insert into mails (user_id, recipient, template, subject, text, html, message_id, status, error, attempts, claimed_until, created_at, queued_at, sent_at)
select u.id, u.email, 'welcome', 'Welcome to the bench', repeat('Hello, this is a mail. ', 20), repeat('<p>Hello, this is a mail.</p>', 20), i || '@bench', s.status,
       case when s.status = 'failed' then '550 no such user' else '' end, 1, case when s.status = 'queued' then now() + interval '30 days' end, s.at, s.at, case when s.status = 'sent' then s.at end
from generate_series($2::int, $3::int) i
join users u on u.id = i
cross join lateral (select now() - ($1::int - i) * (interval '80 days' / $1::int) as at, case when i % 200 = 1 then 'failed' when i % 5000 = 2 then 'queued' else 'sent' end as status) s`

// Ten files each of a tenth of the accounts; an hundredth have a thumbnail.
const filesSQL = `
insert into uploads (owner_id, filename, content_type, size, sha256, status, width, height, backend, key, held, thumbnail_key, thumbnail_type, created_at, updated_at)
select 1 + i / 10, 'photo-' || i || '.jpg', case when i % 4 = 0 then 'application/pdf' else 'image/jpeg' end, n.size, sha256(i::text::bytea), 'ready',
       case when i % 4 > 0 then 640 end, case when i % 4 > 0 then 480 end, 'local', 'bench/' || i, n.size, case when i % 100 = 1 then 'bench/t' || i end, case when i % 100 = 1 then 'image/jpeg' end, n.at, n.at
from generate_series($2::int, $3::int) i
cross join lateral (select 1000 + i::bigint * 7919 % 5000000 as size, now() - ($1::int - i) * (interval '80 days' / $1::int) as at) n`

// Jobs that wait do so in a queue of no process; those that ended did so within 12 hours.
const jobsSQL = `
insert into river_job (state, attempt, max_attempts, attempted_at, created_at, finalized_at, scheduled_at, priority, args, attempted_by, errors, kind, queue)
select s.state::river_job_state, 1, 25, n.at, n.at, case when s.state in ('completed', 'cancelled', 'discarded') then n.at end,
       case when s.state in ('scheduled', 'retryable') then now() + interval '1 day' else n.at end, 1, jsonb_build_object('event', md5(i::text), 'number', i), '{bench}',
       case when s.state in ('retryable', 'discarded') then array[jsonb_build_object('at', n.at, 'attempt', 1, 'error', 'the target answered 503', 'trace', '')] end,
       (array['webhooks.attempt', 'mails.send', 'statistics.seal_day', 'thumbnails.make'])[1 + i % 4], case when s.state = 'available' then 'bench' else 'default' end
from generate_series(1, $1::int) i
cross join lateral (select now() - ($1::int - i) * (interval '12 hours' / $1::int) as at) n
cross join lateral (select case when i % 100 < 92 then 'completed' when i % 100 < 94 then 'discarded' when i % 100 < 95 then 'cancelled' when i % 100 < 96 then 'retryable' when i % 100 < 97 then 'scheduled' else 'available' end as state) s`

func (w *world) fillJobs(ctx context.Context) error {
	if _, err := w.owner.Exec(ctx, `delete from river_job`); err != nil {
		return err
	}
	if _, err := w.owner.Exec(ctx, jobsSQL, w.deliveries/10); err != nil {
		return fmt.Errorf("jobs: %w", err)
	}
	_, err := w.owner.Exec(ctx, `vacuum (analyze) river_job`)
	return err
}

// fillMinutes has processes measure a day's requests and store each minute, as those of an
// installation did.
func (w *world) fillMinutes(ctx context.Context) error {
	if _, err := w.owner.Exec(ctx, `delete from telemetry_minutes`); err != nil {
		return err
	}
	begin := time.Now().Truncate(time.Minute).Add(-telemetry.Kept)
	for process := range pagesProcesses {
		now := begin
		requests := telemetry.NewRequests()
		h, err := telemetry.NewHistory(telemetry.HistoryOptions{
			Areas: db.Undivided(w.db), Requests: requests, Logger: slog.New(slog.DiscardHandler), Instance: fmt.Sprintf("bench:%d", process),
			Now: func() time.Time { return now },
		})
		if err != nil {
			return err
		}
		for minute := range int(telemetry.Kept / time.Minute) {
			for route := range pagesRoutes {
				for n := range 5 {
					q := telemetry.Request{
						At: now, Method: "GET", Route: fmt.Sprintf("/api/things-%d/{id}", route), Status: 200, ID: fmt.Sprintf("%d-%d-%d-%d", process, minute, route, n),
						Took: time.Duration(1+(minute*7+route*13+n*29)%200) * time.Millisecond,
					}
					if (minute+route)%53 == 0 && n == 0 {
						q.Status = 500 + minute%4
					}
					requests.Observe(q)
				}
			}
			now = now.Add(time.Minute)
			if err := h.Flush(ctx); err != nil {
				return err
			}
		}
	}
	_, err := w.owner.Exec(ctx, `vacuum (analyze) telemetry_minutes`)
	return err
}
