package webhook

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/db/where"
)

// manyFiltered stores n events of busy, of which a quarter each waits, has failed, was repeated,
// and goes to the target slow; and twenty of quiet, older than all, a few of which are what a
// filter asks for.
func manyFiltered(t *testing.T, c *pgx.Conn, n int) {
	t.Helper()
	for _, sql := range []string{`
		insert into webhook_events (id, provider, event_type, external_id, status, handler_error, processed_at, created_at, raw, raw_sha256, headers, lease_until, attempts)
		select lpad(to_hex(i), 32, '0')::uuid, case when i < 20 then 'quiet' else 'busy' end, case when i < 20 then 'thing.made' else (array['paid', 'sent'])[1 + i % 3 % 2] end, 'evt_' || i, s.status,
		       case when i = 3 then 'No route to host' when s.status = 'failed' then 'The target answered 503: ' || i else '' end,
		       case when s.status = 'processed' then now() end, now() + i * interval '1 ms', b.raw, sha256(b.raw), '{}', case when s.status = 'pending' then now() end,
		       case when i between 5 and 8 then 0 else 1 end
		from generate_series(1, $1::int) i,
		     lateral (select case when i = 3 then 'failed' when i < 20 then 'processed' when i % 4 = 0 then 'pending' when i % 4 = 1 then 'failed' else 'processed' end as status) s,
		     lateral (select case when i > 20 and i % 4 = 2 or i in (10, 11) then 'same' else i::text end::bytea as raw) b`, `
		insert into webhook_forwards (event_id, target, provider, status, due_at, created_at)
		select e.id, case when e.provider = 'quiet' then 'crm' else 'slow' end, e.provider, 'processed', null, e.created_at
		from webhook_events e where $1::int > 0 and (e.external_id in ('evt_12', 'evt_13') or right(e.external_id, 1) in ('3', '7'))`,
	} {
		if _, err := c.Exec(t.Context(), sql, n); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := new(dbsqlc.Queries).MarkWebhookRepeats(t.Context(), c, dbsqlc.MarkWebhookRepeatsParams{MaxRows: int32(n), SettledAt: time.Now()}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Exec(t.Context(), `vacuum analyze webhook_events, webhook_forwards, webhook_repeats`); err != nil {
		t.Fatal(err)
	}
}

func TestAPageByAnyFilterReadsNoOtherEvents(t *testing.T) {
	t.Parallel()
	filters := map[string]Filter{
		"pending of a provider without any":     {Provider: "quiet", Status: Pending},
		"pending, and a type that has none":     {Status: Pending, EventType: "thing.made"},
		"a type that a provider never had":      {Provider: "busy", EventType: "thing.made"},
		"failed, and a type that has few":       {Status: Failed, EventType: "thing.made"},
		"a rare error":                          {Error: "no ROUTE"},
		"a rare error, failed":                  {Error: "no ROUTE", Status: Failed},
		"an error that a provider never had":    {Error: "no route", Provider: "busy"},
		"an error that nobody has":              {Error: "the target answered 404"},
		"unhandled":                             {Unhandled: true},
		"unhandled of a provider without any":   {Unhandled: true, Provider: "busy"},
		"unhandled, and a type that has none":   {Unhandled: true, EventType: "paid"},
		"repeated of a provider that has few":   {Repeated: true, Provider: "quiet"},
		"repeated, and a type that has few":     {Repeated: true, EventType: "thing.made"},
		"repeated, unhandled":                   {Repeated: true, Unhandled: true},
		"repeated, a rare error":                {Repeated: true, Error: "no route"},
		"a quiet target":                        {Target: "crm"},
		"a quiet target, of another provider":   {Target: "crm", Provider: "busy"},
		"a target that nobody has":              {Target: "none"},
		"a busy target, of a quiet provider":    {Target: "slow", Provider: "quiet"},
		"a quiet target, failed":                {Target: "crm", Status: Failed},
		"an id":                                 {ExternalID: "evt_7"},
		"an id, and a status":                   {ExternalID: "evt_7", Status: Pending},
		"what came before all":                  {Status: Failed, To: time.Now().Add(-time.Hour)},
		"repeated, that came before all":        {Repeated: true, To: time.Now().Add(-time.Hour)},
		"failed, common":                        {Status: Failed},
		"pending, common":                       {Status: Pending},
		"repeated, common":                      {Repeated: true},
		"repeated, common, and most are so":     {Repeated: true, Status: Processed},
		"a busy target, and most are processed": {Target: "slow", Provider: "busy"},
	}
	measure := func(n int) map[string]int {
		c, err := pgx.Connect(t.Context(), dbtest.NewURL(t).Admin)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close(t.Context()) }()
		manyFiltered(t, c, n)
		pages := map[string]int{}
		for name, f := range filters {
			from := &asked{Conn: c}
			sql, args, err := f.page(t.Context(), from, nil, 26)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
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
		// Indexes are deeper, and up to 10,000 of their entries are counted.
		if n > 2*few[name]+400 {
			t.Errorf("%s: %d pages are touched among 40,000 events, %d among 6,000", name, n, few[name])
		}
	}
	t.Logf("pages touched: %v among 40,000 events, %v among 6,000", many, few)
}

// stored is an event as a filter sees it.
type stored struct {
	id                                         uuid.UUID
	provider, eventType, external, status, err string
	attempts                                   int
	target                                     string
	repeated                                   bool
	at                                         time.Time
}

func (s stored) matches(f Filter) bool {
	return (f.Provider == "" || f.Provider == s.provider) && (f.EventType == "" || f.EventType == s.eventType) &&
		(f.ExternalID == "" || f.ExternalID == s.external) && (f.Status == "" || string(f.Status) == s.status) &&
		strings.HasPrefix(strings.ToLower(s.err), strings.ToLower(f.Error)) && (f.Target == "" || f.Target == s.target) &&
		(!f.Repeated || s.repeated) && (!f.Unhandled || s.status == "processed" && s.attempts == 0) &&
		(f.From.IsZero() || !s.at.Before(f.From)) && (f.To.IsZero() || s.at.Before(f.To))
}

func TestEverySourceFindsTheSameEvents(t *testing.T) {
	t.Parallel()
	c, err := pgx.Connect(t.Context(), dbtest.NewURL(t).Admin)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(t.Context()) }()
	start := time.Now().Truncate(time.Second).UTC()
	var all []stored
	for i := range 240 {
		s := stored{
			provider: []string{"payment", "codehost", "acme"}[i*7%3], eventType: []string{"paid", "", "sent"}[i*5%3], status: []string{"pending", "failed", "processed"}[i*11%7%3],
			attempts: i * 13 % 2, at: start.Add(time.Duration(i/2) * time.Second), repeated: i*17%5 == 0,
		}
		s.id = uuid.UUID{15: byte(i)}
		if i%3 > 0 {
			s.external = fmt.Sprint("evt_", i)
		}
		if s.status != "processed" {
			s.err = []string{"", "No route", "no route to 50%_x", "Timeout"}[i*19%4]
		}
		if i%4 == 1 {
			s.target = []string{"crm", "shop"}[i%8/4]
		}
		all = append(all, s)
		if _, err := c.Exec(t.Context(), `
			with e as (
			    insert into webhook_events (id, provider, event_type, external_id, status, handler_error, attempts, processed_at, lease_until, created_at, raw, raw_sha256, headers)
			    values ($1, $2, $3, $4, $5, $6, $7, case when $5 = 'processed' then now() end, case when $5 = 'pending' then now() end, $8, '', sha256($10::text::bytea), '{}')
			), f as (
			    insert into webhook_forwards (event_id, target, provider, status, created_at) select $1, $9, $2, 'processed', $8 where $9 <> ''
			)
			insert into webhook_repeats (id, provider, event_type, created_at) select $1, $2, $3, $8 where $11`,
			s.id, s.provider, s.eventType, s.external, s.status, s.err, s.attempts, s.at, s.target, fmt.Sprint(i), s.repeated); err != nil {
			t.Fatal(err)
		}
	}
	slices.SortFunc(all, func(a, b stored) int {
		if n := b.at.Compare(a.at); n != 0 {
			return n
		}
		return strings.Compare(b.id.String(), a.id.String())
	})
	rapid.Check(t, func(t *rapid.T) {
		instant := func(name string) time.Time {
			if s := rapid.IntRange(0, 400).Draw(t, name); s < 120 {
				return start.Add(time.Duration(s) * time.Second)
			}
			return time.Time{}
		}
		of := func(name string, values ...string) string {
			return rapid.SampledFrom(append([]string{"", "", ""}, values...)).Draw(t, name)
		}
		f := Filter{
			Provider: of("provider", "payment", "codehost", "none"), EventType: of("type", "paid", "none"), ExternalID: of("id", "evt_7", "evt_8", "evt_100"),
			Status: Status(of("status", "pending", "failed", "processed", "strange")), Target: of("target", "crm", "shop", "none"), Error: of("error", "no", "NO ROUTE to 50%_", "%", "timeout"),
			Repeated: rapid.Bool().Draw(t, "repeated"), Unhandled: rapid.Bool().Draw(t, "unhandled"), From: instant("from"), To: instant("to"),
		}
		limit := rapid.IntRange(1, 30).Draw(t, "limit")
		conditions := f.conditions()
		var after *Position
		if n := rapid.IntRange(-3, 239).Draw(t, "after"); n >= 0 {
			after = &Position{all[n].at, all[n].id}
			conditions = append(conditions, condition{ofTime, "(~.created_at, ~.id) < (?, ?)", []any{after.CreatedAt, after.ID}})
		}
		want := []uuid.UUID{}
		for _, s := range all {
			if s.matches(f) && (after == nil || (Position{s.at, s.id}).before(*after)) && len(want) < limit {
				want = append(want, s.id)
			}
		}
		for i, source := range f.sources() {
			for _, isFew := range []bool{false, true} {
				args := where.New(MaxInlineBody)
				sql := source.page(args, conditions, f.Provider == "", isFew, limit)
				list, err := records(t.Context(), c, sql, args.Fresh())
				if err != nil {
					t.Fatalf("source %d, few %v: %v\n%s", i, isFew, err, sql)
				}
				got := []uuid.UUID{}
				for _, rec := range list {
					got = append(got, rec.ID)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatalf("source %d, few %v (-want +got):\n%s\n%s", i, isFew, diff, sql)
				}
			}
		}
		sql, args, err := f.page(t.Context(), c, after, limit)
		if err != nil {
			t.Fatal(err)
		}
		list, err := records(t.Context(), c, sql, args.Fresh())
		if err != nil || len(list) != len(want) {
			t.Fatalf("%d, %v", len(list), err)
		}
	})
}
