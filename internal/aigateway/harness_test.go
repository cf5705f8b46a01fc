package aigateway_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/internal/aigateway"
	"github.com/waypost/waypost/internal/aigateway/aitest"
	"github.com/waypost/waypost/internal/identity"
)

const (
	key      = "sk-of-the-upstream"
	prompt   = "a secret of the prompt"
	patience = 30 * time.Second // for what must happen, however slow the machine
)

// world is a database with accounts, and an upstream.
type world struct {
	db       *db.DB
	upstream *aitest.Server
	log      *strings.Builder
	// user and token are those who call.
	user, token int64
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{db: dbtest.New(t), log: &strings.Builder{}}
	var closeServer func()
	w.upstream, closeServer = aitest.New()
	t.Cleanup(closeServer)
	single := w.db.Single(identity.System("test"))
	const now = "2026-01-01T00:00:00Z"
	if err := single.QueryRow(t.Context(), `insert into users (first_name, last_name, email, email_key, password_hash, created_at, updated_at)
		values ('Ada', 'Lovelace', 'ada@example.com', 'ada@example.com', '', $1, $1) returning id`, now).Scan(&w.user); err != nil {
		t.Fatal(err)
	}
	if err := single.QueryRow(t.Context(), `insert into api_tokens (user_id, name, prefix, token_sha256, scopes, created_at)
		values ($1, 'bot', 'wp_', '\x00', '{ai}', $2) returning id`, w.user, now).Scan(&w.token); err != nil {
		t.Fatal(err)
	}
	return w
}

// config is a file's section: models named like the upstream's, with a price and
// limits. Text in more comes after the models.
func (w *world) config(limits string, models ...string) aigateway.Declared {
	var b strings.Builder
	fmt.Fprintf(&b, `ai:
  upstreams:
    - {name: main, kind: openai, base_url: %q, key_env: KEY, allow_private: true}
    - {name: spare, kind: anthropic, base_url: %q, key_env: KEY, allow_private: true}
    - {name: away, kind: openai, base_url: "http://127.0.0.1:1/v1", key_env: KEY, allow_private: true}
    - {name: refused, kind: openai, base_url: %q, key_env: KEY}
  limits: %s
  models:
`, w.upstream.URL+"/v1", w.upstream.URL, w.upstream.URL+"/v1", limits)
	for _, m := range append(models, "{name: fine, max_output: 10, price: {input: 1, output: 10}, targets: [{upstream: main, model: fine}]}") {
		b.WriteString("    - " + m + "\n")
	}
	d, err := aigateway.ParseYAML("waypost.yaml", []byte(b.String()))
	if err != nil {
		panic(err)
	}
	return d
}

// one is a model of one target, under its upstream's name.
func one(upstream, model string) string {
	return fmt.Sprintf("{name: %s, max_output: 10, price: {input: 1, output: 10}, targets: [{upstream: %s, model: %s}]}", model, upstream, model)
}

const wide = "{rpm: 1000000, tpm: 1000000000, budget: 1000, period: month, timeout: 10s}"

func (w *world) open(t *testing.T, d aigateway.Declared, change ...func(*aigateway.Options)) *aigateway.Service {
	t.Helper()
	o := aigateway.Options{DB: w.db, Declared: d, LookupKey: func(string) string { return key }, Pause: time.Millisecond}
	for _, c := range change {
		c(&o)
	}
	s, err := aigateway.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return s
}

// as is a context of the account's, or of its token.
func (w *world) as(ctx context.Context, token int64) context.Context {
	p := identity.Account(w.user, identity.User, "")
	if token != 0 {
		p = identity.Token(w.user, identity.User, token, identity.NewScopes(identity.AI))
	}
	return identity.NewContext(ctx, p)
}

// client keeps what it is sent.
type client struct {
	mu     sync.Mutex
	allow  aigateway.Allowance
	body   string
	begun  bool
	pieces []string
	// onPiece is told of each piece; its error means that the client is gone.
	onPiece func(n int) error
}

func (c *client) Allow(a aigateway.Allowance) { c.allow = a }

func (c *client) Answer(body []byte) error {
	c.body = string(body)
	return nil
}

func (c *client) Begin() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.begun = true
	return nil
}

func (c *client) Piece(data []byte, _ bool) error {
	c.mu.Lock()
	c.pieces = append(c.pieces, string(data))
	n := len(c.pieces)
	c.mu.Unlock()
	if c.onPiece != nil {
		return c.onPiece(n)
	}
	return nil
}

func (c *client) text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.body + strings.Join(c.pieces, "\n")
}

func request(model string, more string) []byte {
	return fmt.Appendf(nil, `{"model":%q,"messages":[{"role":"user","content":%q}]%s}`, model, prompt, more)
}

// ask makes a call as the account.
func (w *world) ask(t *testing.T, s *aigateway.Service, model, more string) (*client, error) {
	t.Helper()
	c := &client{}
	return c, s.Chat(w.as(t.Context(), 0), request(model, more), c)
}

// entry is a line of the ledger.
type entry struct {
	Model, Upstream string
	Input, Output   int64
	Cost            string
	Outcome         string
	Estimated       bool
}

func (w *world) ledger(t *testing.T) []entry {
	t.Helper()
	rows, err := w.db.Direct().Query(t.Context(), `select model, upstream, input_tokens, output_tokens, trim_scale(cost)::text, outcome, estimated from ai_calls order by at, id`)
	if err != nil {
		t.Fatal(err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[entry])
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// balanced fails unless nothing is reserved, and what is counted is what the ledger has.
func (w *world) balanced(t *testing.T) {
	t.Helper()
	var reservations int
	var wrong []string
	err := w.db.Direct().QueryRow(t.Context(), `select (select count(*) from ai_reservations), array(
		select format('user %s, token %s: spent %s, reserved %s, booked %s', m.user_id, m.token_id, m.spent, m.reserved, b.cost) from ai_meters m
		cross join lateral (select coalesce(sum(c.cost), 0) as cost from ai_calls c where c.user_id = m.user_id and (m.token_id = 0 or c.token_id = m.token_id)) b
		where m.reserved <> 0 or m.spent <> b.cost)
		|| array(select format('usage %s, calls %s', u, c) from (select coalesce(sum(cost), 0) u from ai_usage) x, (select coalesce(sum(cost), 0) c from ai_calls) y where u <> c)`).Scan(&reservations, &wrong)
	if err != nil || reservations != 0 || len(wrong) > 0 {
		t.Errorf("%v, %d reservations are left, and %q", err, reservations, wrong)
	}
}

// eventually waits for what happens soon.
func eventually(t *testing.T, what string, happened func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !happened(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it did not happen: " + what)
		}
	}
}

func is(err, want error) bool { return errors.Is(err, want) }
