package webhook

import (
	"encoding/json"
	"testing"

	"github.com/jackc/pgx/v5"

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
			matching := Filter{Provider: provider}.matching(MaxInlineBody)
			pages[provider] = buffers(t, c, pageOf(matching, 50), matching.Args())
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
