package webhook

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/db/dbtest"
)

// buffers is how many pages of PostgreSQL a query touches.
func buffers(t *testing.T, c *pgx.Conn, sql string, args []any) int {
	t.Helper()
	var text []byte
	if err := c.QueryRow(t.Context(), `explain (analyze, buffers, format json) `+sql, args...).Scan(&text); err != nil {
		t.Fatal(err)
	}
	var plans []struct {
		Plan struct {
			Hit  int `json:"Shared Hit Blocks"`
			Read int `json:"Shared Read Blocks"`
		}
	}
	if err := json.Unmarshal(text, &plans); err != nil || len(plans) != 1 {
		t.Fatalf("%d plans, %v", len(plans), err)
	}
	return plans[0].Plan.Hit + plans[0].Plan.Read
}

// equalBodies stores n events each of two providers whose bodies are all equal,
// those of codehost without an id; then few of a third one with the same body, and
// of codehost with bodies of their own.
func equalBodies(t *testing.T, c *pgx.Conn, n int) {
	t.Helper()
	for i, rows := range []struct {
		provider, id, body string
		n                  int
	}{
		{"codehost", "", "{}", n}, {"payment", "evt_#", "{}", n}, {"quiet", "", "{}", 20}, {"codehost", "", "[#]", 20},
	} {
		if _, err := c.Exec(t.Context(), `
			insert into webhook_events (id, provider, event_type, external_id, status, processed_at, created_at, raw, raw_sha256, headers)
			select lpad(to_hex($1::int * 1000000 + i), 32, '0')::uuid, $2, '', replace($3, '#', i::text), 'processed', now(),
			       now() + ($1::int * 1000000 + i) * interval '1 ms', b.raw, sha256(b.raw), '{}'
			from generate_series(1, $5::int) i, lateral (select replace($4, '#', i::text)::bytea as raw) b`,
			i, rows.provider, rows.id, rows.body, rows.n); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Exec(t.Context(), `vacuum analyze webhook_events`); err != nil {
		t.Fatal(err)
	}
}

func TestAPageCostsNoMoreWithManyEqualBodies(t *testing.T) {
	t.Parallel()
	measure := func(n int) map[string]int {
		c, err := pgx.Connect(t.Context(), dbtest.NewURL(t).Admin)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close(t.Context()) }()
		equalBodies(t, c, n)
		pages := map[string]int{}
		for _, provider := range []string{"", "codehost", "payment", "quiet"} {
			sql, args, err := Filter{Provider: provider}.page(t.Context(), c, nil, 50)
			if err != nil {
				t.Fatal(err)
			}
			pages[provider] = buffers(t, c, sql, args.Args())
		}
		pages["one event"] = buffers(t, c, recordColumns+` where e.id = lpad(to_hex($2::int), 32, '0')::uuid`, []any{MaxInlineBody, n})
		return pages
	}
	few, many := measure(200), measure(20_000)
	for page, n := range many {
		// A larger index is a level deeper.
		if n > 2*few[page]+50 {
			t.Errorf("%q: %d pages are touched with 20,000 equal bodies, %d with 200", page, n, few[page])
		}
	}
	t.Logf("pages touched: %v with 20,000 equal bodies, %v with 200", many, few)
}

// asked keeps the statements that a connection is asked, with their arguments.
type asked struct {
	*pgx.Conn
	statements []string
	args       [][]any
}

func (a *asked) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	a.statements = append(a.statements, sql)
	given := args
	if len(given) > 0 && given[0] == pgx.QueryExecModeCacheDescribe {
		given = given[1:]
	}
	a.args = append(a.args, given)
	return a.Conn.Query(ctx, sql, args...)
}

// busyAndQuiet stores n events of a busy provider, of two types; a hundredth of the first
// half has failed, and some of the newest are pending. Few are of a quiet one, older than all.
func busyAndQuiet(t *testing.T, c *pgx.Conn, n int) {
	t.Helper()
	if _, err := c.Exec(t.Context(), `
		insert into webhook_events (id, provider, event_type, external_id, status, processed_at, created_at, raw, raw_sha256, headers, lease_until, attempts)
		select lpad(to_hex(i), 32, '0')::uuid, case when i < 30 then 'quiet' else 'busy' end, case when i < 30 then 'thing.made' else (array['paid', 'sent'])[1 + i % 2] end, 'evt_' || i,
		       s.status, now(), now() + i * interval '1 ms', i::text::bytea, sha256(i::text::bytea), '{}', case when s.status = 'pending' then now() end, 1
		from generate_series(1, $1::int) i,
		     lateral (select case when i > 30 and i < $1 / 2 and i % 100 = 0 then 'failed' when i > $1 - 20 then 'pending' else 'processed' end as status) s`, n); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Exec(t.Context(), `vacuum analyze webhook_events`); err != nil {
		t.Fatal(err)
	}
}

func TestAPageOfWhatIsRareReadsNoOtherEvents(t *testing.T) {
	t.Parallel()
	filters := map[string]Filter{
		"quiet": {Provider: "quiet"}, "quiet, pending": {Provider: "quiet", Status: Pending}, "quiet, failed": {Provider: "quiet", Status: Failed},
		"a type of quiet": {EventType: "thing.made"}, "a type of others": {Provider: "quiet", EventType: "paid"}, "another's type": {Provider: "busy", EventType: "thing.made"},
		"a type of nobody": {EventType: "none"}, "quiet, of no type": {Provider: "quiet", EventType: "none"}, "nobody": {Provider: "none"},
		"pending": {Status: Pending}, "pending, of no type": {Status: Pending, EventType: "none"}, "failed": {Status: Failed}, "failed, busy": {Status: Failed, Provider: "busy"},
		"failed, of no type": {Status: Failed, EventType: "thing.made"}, "failed, of busy and of no type": {Provider: "busy", Status: Failed, EventType: "none"},
	}
	measure := func(n int) map[string]int {
		c, err := pgx.Connect(t.Context(), dbtest.NewURL(t).Admin)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close(t.Context()) }()
		busyAndQuiet(t, c, n)
		pages := map[string]int{}
		for name, f := range filters {
			from := &asked{Conn: c}
			sql, args, err := f.page(t.Context(), from, nil, 26)
			if err != nil {
				t.Fatal(err)
			}
			pages[name] = buffers(t, c, sql, args.Args())
			for i, sql := range from.statements {
				pages[name] += buffers(t, c, sql, from.args[i])
			}
		}
		return pages
	}
	few, many := measure(6000), measure(40_000)
	for name, n := range many {
		// Indexes are deeper; of the failures, which are 40 times as many, only an index is read.
		if n > 2*few[name]+60 {
			t.Errorf("%s: %d pages are touched among 40,000 events, %d among 6,000", name, n, few[name])
		}
	}
	t.Logf("pages touched: %v among 40,000 events, %v among 6,000", many, few)
}

// loudAndQuiet stores n failed events of loud, and as many as are many, older than those, of
// quiet, whose bodies are equal and which a target got.
func loudAndQuiet(t *testing.T, c *pgx.Conn, n int) {
	t.Helper()
	for _, sql := range []string{`
		insert into webhook_events (id, provider, event_type, external_id, status, handler_error, created_at, raw, raw_sha256, headers, attempts)
		select lpad(to_hex(i), 32, '0')::uuid, p.name, '', 'evt_' || i, 'failed', 'down', now() + i * interval '1 ms', '', sha256((case when p.name = 'loud' then i::text else 'same' end)::bytea), '{}', 1
		from generate_series(1, $1::int) i, lateral (select case when i > $2::int then 'loud' else 'quiet' end as name) p`, `
		insert into webhook_forwards (event_id, target, provider, status, created_at)
		select e.id, 'crm', e.provider, 'processed', e.created_at from webhook_events e where e.provider = 'quiet' and $1::int >= $2::int`, `
		insert into webhook_repeats (id, provider, event_type, created_at)
		select e.id, e.provider, '', e.created_at from webhook_events e where e.provider = 'quiet' and $1::int >= $2::int`,
	} {
		if _, err := c.Exec(t.Context(), sql, n+many, many); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Exec(t.Context(), `vacuum analyze webhook_events, webhook_forwards, webhook_repeats`); err != nil {
		t.Fatal(err)
	}
}

func TestAPageAsksNoEventOfAProviderThatHasNothingOfTheFilter(t *testing.T) {
	t.Parallel()
	measure := func(n int) [2]int {
		c, err := pgx.Connect(t.Context(), dbtest.NewURL(t).Admin)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close(t.Context()) }()
		loudAndQuiet(t, c, n)
		var pages [2]int
		for i, f := range []Filter{{Status: Failed, Repeated: true}, {Status: Failed, Target: "crm"}} {
			sql, args, err := f.page(t.Context(), c, nil, 26)
			if err != nil {
				t.Fatal(err)
			}
			pages[i] = buffers(t, c, sql, args.Args())
		}
		return pages
	}
	less, more := measure(1000), measure(20_000)
	t.Logf("pages touched: %v beside 20,000 of another provider, %v beside 1,000", more, less)
	for i, n := range more {
		if n > 2*less[i]+60 {
			t.Errorf("%d pages are touched beside 20,000 of another provider, %d beside 1,000", n, less[i])
		}
	}
}

func TestAStreakIsFoundWithoutReadingWhatOthersSent(t *testing.T) {
	t.Parallel()
	measure := func(n int) int {
		c, err := pgx.Connect(t.Context(), dbtest.NewURL(t).Admin)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close(t.Context()) }()
		busyAndQuiet(t, c, n)
		// Nothing of quiet was handled since its one failure.
		if _, err := c.Exec(t.Context(), `update webhook_events set attempts = 0, status = case when external_id = 'evt_3' then 'failed' else status end where provider = 'quiet'`); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Exec(t.Context(), `vacuum analyze webhook_events`); err != nil {
			t.Fatal(err)
		}
		from := &asked{Conn: c}
		rows, err := new(dbsqlc.Queries).WebhookFailureStreaks(t.Context(), from, streakRows)
		if err != nil || len(rows) != 2 || rows[1].Provider != "quiet" || rows[1].Streak != 1 || rows[0].Streak != 0 {
			t.Fatalf("%+v, %v", rows, err)
		}
		return buffers(t, c, from.statements[0], []any{streakRows})
	}
	if few, many := measure(6000), measure(40_000); many > 2*few+60 {
		t.Errorf("%d pages are touched among 40,000 events, %d among 6,000", many, few)
	}
}

func TestAStreakIsFoundWithoutReadingAllThatFailedOrWaits(t *testing.T) {
	t.Parallel()
	measure := func(n int) int {
		c, err := pgx.Connect(t.Context(), dbtest.NewURL(t).Admin)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close(t.Context()) }()
		// Of an outage that goes on, half has failed and half waits for another attempt.
		if _, err := c.Exec(t.Context(), `
			insert into webhook_events (id, provider, event_type, external_id, status, handler_error, created_at, raw, raw_sha256, headers, lease_until, attempts)
			select lpad(to_hex(i), 32, '0')::uuid, 'busy', '', '', s.status, 'down', now() + i * interval '1 ms', '', sha256(i::text::bytea), '{}', case when s.status = 'pending' then now() end, 1
			from generate_series(1, $1::int) i, lateral (select case when i % 2 = 0 then 'failed' else 'pending' end as status) s`, n); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Exec(t.Context(), `vacuum analyze webhook_events`); err != nil {
			t.Fatal(err)
		}
		from := &asked{Conn: c}
		rows, err := new(dbsqlc.Queries).WebhookFailureStreaks(t.Context(), from, streakRows)
		if err != nil || len(rows) != 1 || rows[0].Streak != streakRows {
			t.Fatalf("%+v, %v", rows, err)
		}
		return buffers(t, c, from.statements[0], []any{streakRows})
	}
	if few, many := measure(6000), measure(40_000); many > 2*few+60 {
		t.Errorf("%d pages are touched of 40,000 failing events, %d of 6,000", many, few)
	} else {
		t.Logf("%d pages are touched of 40,000 failing events, %d of 6,000", many, few)
	}
}
