package aigateway_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waypost/waypost/internal/aigateway"
	"github.com/waypost/waypost/internal/aigateway/aitest"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
)

// written is what a log has.
type written struct {
	mu sync.Mutex
	bytes.Buffer
}

func (w *written) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.Buffer.Write(p)
}

// Whatever an upstream does, the client is told, the call is booked, and neither its key
// nor what was asked is told to anybody.
func TestEveryMisfortuneOfAnUpstreamIsToldAndBooked(t *testing.T) {
	t.Parallel()
	const (
		lost   = "0.000024" // 14 tokens of the prompt, estimated, and one of an answer
		pieces = "0.000044" // the same, and three tokens, estimated, of the text that was handed on
	)
	for _, c := range []struct {
		upstream, model string
		stream          bool
		want            error
		outcome, cost   string // "" for a call that is not booked
	}{
		{"main", aitest.Slow, false, nil, "completed", "0.000057"},
		{"main", aitest.Slow, true, nil, "completed", "0.000057"},
		{"main", aitest.Flaky, true, nil, "completed", "0.000057"},
		{"main", aitest.NoUsage, true, nil, "completed", "0.000114"},
		{"spare", aitest.NoUsage, true, nil, "completed", "0.000114"},
		{"main", aitest.Silent, false, aigateway.ErrUpstreamTimeout, "failed", lost},
		{"main", aitest.Silent, true, aigateway.ErrUpstreamTimeout, "failed", lost},
		{"main", aitest.Hangs, true, aigateway.ErrUpstreamTimeout, "cut", pieces},
		{"spare", aitest.Hangs, true, aigateway.ErrUpstreamTimeout, "cut", "0.000017"}, // the prompt as stated
		{"main", aitest.Cut, false, aigateway.ErrUpstream, "cut", lost},
		{"main", aitest.Cut, true, aigateway.ErrUpstream, "cut", pieces},
		{"spare", aitest.Cut, true, aigateway.ErrUpstream, "cut", "0.000017"},
		{"main", aitest.Malformed, false, aigateway.ErrUpstream, "cut", lost},
		{"main", aitest.Malformed, true, aigateway.ErrUpstream, "cut", lost},
		{"spare", aitest.Malformed, true, aigateway.ErrUpstream, "cut", "0.000017"},
		{"main", aitest.Busy, true, aigateway.ErrUpstream, "failed", "0"},
		{"main", aitest.Broken, false, aigateway.ErrUpstream, "failed", "0"},
		{"main", aitest.Quoting, false, aigateway.ErrUpstream, "failed", "0"},
		{"spare", aitest.Quoting, true, aigateway.ErrUpstream, "failed", "0"},
		{"main", aitest.Reporting, false, aigateway.ErrUpstream, "cut", lost},
		{"spare", aitest.Reporting, true, aigateway.ErrUpstream, "cut", lost},
		{"main", aitest.Refusing, true, aigateway.ErrRefused, "failed", "0"},
		{"main", aitest.Redirects, false, aigateway.ErrUpstream, "failed", "0"},
		{"away", "gone", false, aigateway.ErrUpstream, "", ""},
		{"refused", "private", false, aigateway.ErrUpstream, "", ""},
	} {
		t.Run(fmt.Sprintf("%s %s %t", c.upstream, c.model, c.stream), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			var log written
			limits := "{rpm: 100, tpm: 100000, timeout: 10s}"
			if c.want == aigateway.ErrUpstreamTimeout {
				limits = "{rpm: 100, tpm: 100000, timeout: 300ms}"
			}
			s := w.open(t, w.config(limits, one(c.upstream, c.model)), func(o *aigateway.Options) { o.Logger = slog.New(slog.NewJSONHandler(&log, nil)) })
			more := ""
			if c.stream {
				more = `,"stream":true`
			}
			got, err := w.ask(t, s, c.model, more)
			if !is(err, c.want) || c.want == nil && err != nil {
				t.Errorf("%v, not %v", err, c.want)
			}
			if done := strings.HasSuffix(got.text(), "[DONE]"); done != (c.want == nil && c.stream) {
				t.Errorf("a stream that ends so: %s", got.text())
			}
			booked := w.ledger(t)
			switch {
			case c.outcome == "" && len(booked) > 0:
				t.Errorf("booked: %+v", booked)
			case c.outcome != "" && (len(booked) != 1 || booked[0].Outcome != c.outcome || booked[0].Cost != c.cost):
				t.Errorf("booked: %+v, not %s for %s", booked, c.outcome, c.cost)
			}
			w.balanced(t)
			told := got.text() + log.String()
			if err != nil {
				told += err.Error()
			}
			if strings.Contains(told, key) || strings.Contains(log.String()+fmt.Sprint(err), prompt) {
				t.Errorf("it tells too much: %s", told)
			}
		})
	}
}

func TestAFallbackAnswersWhenTheFirstTargetDoesNot(t *testing.T) {
	t.Parallel()
	for model, first := range map[string]string{"busy": aitest.Busy, "broken": aitest.Broken, "quoting": aitest.Quoting, "silent": aitest.Silent} {
		t.Run(model, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			d := w.config("{rpm: 100, tpm: 100000, timeout: 1s}", fmt.Sprintf("{name: %s, max_output: 10, price: {input: 1, output: 10}, targets: [{upstream: main, model: %s}, {upstream: spare, model: fine, price: {input: 2, output: 20}}]}", model, first))
			s := w.open(t, d)
			got, err := w.ask(t, s, model, `,"stream":true`)
			if err != nil || !strings.Contains(got.text(), "algebraic") {
				t.Fatal(err, got.text())
			}
			want := entry{model, "spare", 7, 5, "0.000114", "completed", false}
			if first == aitest.Silent { // what the first may have cost is paid too
				want = entry{model, "spare", 21, 6, "0.000138", "completed", true}
			}
			if diff := cmp.Diff([]entry{want}, w.ledger(t)); diff != "" {
				t.Error(diff)
			}
			w.balanced(t)
		})
	}
}

func TestBudgetAndRolesAreCheckedAgainForTheFallback(t *testing.T) {
	t.Parallel()
	const dear = "{name: dear, max_output: 10, price: {output: 10}, targets: [{upstream: main, model: broken}, {upstream: main, model: fine, price: {output: 1000}}]}"
	const editors = "{name: editors, max_output: 10, price: {}, targets: [{upstream: main, model: broken}, {upstream: main, model: fine, roles: [EDITOR]}]}"
	const both = "{name: both, max_output: 10, price: {}, targets: [{upstream: main, model: broken}, {upstream: main, model: fine}]}"
	for name, c := range map[string]struct {
		model  string
		change string // made after the reservation
		want   error
	}{
		"budget":     {"dear", "", aigateway.ErrBudget},
		"role":       {"editors", "", aigateway.ErrUpstream},
		"demoted":    {"both", `update users set role = 'EDITOR'`, nil},
		"ended":      {"both", `update users set active = false`, aigateway.ErrCaller},
		"revoked":    {"both", `update api_tokens set revoked_at = now()`, aigateway.ErrCaller},
		"unchanged":  {"both", "", nil},
		"budget cut": {"dear", `insert into ai_budgets select id, 0, now() from users`, aigateway.ErrBudget},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			s := w.open(t, w.config("{rpm: 100, tpm: 100000, budget: 0.001, timeout: 10s}", dear, editors, both), func(o *aigateway.Options) {
				o.Interrupt = func(b aigateway.Boundary) error {
					if b == aigateway.Reserved && c.change != "" {
						if _, err := w.db.Single(identity.System("test")).Exec(context.WithoutCancel(t.Context()), c.change); err != nil {
							t.Error(err)
						}
					}
					return nil
				}
			})
			if err := s.Chat(w.as(t.Context(), w.token), request(c.model, ""), &client{}); !is(err, c.want) || c.want == nil && err != nil {
				t.Errorf("%v, not %v", err, c.want)
			}
			w.balanced(t)
		})
	}
}

// Five failures in a row keep calls away for 30 s; then one is let through.
func TestABreakerKeepsCallsFromATargetThatFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var after atomic.Int64
	start := time.Now()
	s := w.open(t, w.config(wide, one("main", aitest.Broken), one("main", aitest.Refusing)), func(o *aigateway.Options) {
		o.Now = func() time.Time { return start.Add(time.Duration(after.Load())) }
	})
	ask := func(want error, calls int) {
		t.Helper()
		before := len(w.upstream.Calls())
		if _, err := w.ask(t, s, aitest.Broken, ""); !is(err, want) {
			t.Error(err)
		}
		if n := len(w.upstream.Calls()) - before; n != calls {
			t.Errorf("the upstream was asked %d times, not %d", n, calls)
		}
	}
	ask(aigateway.ErrUpstream, 2)
	ask(aigateway.ErrUpstream, 2)
	ask(aigateway.ErrUpstream, 1)
	ask(aigateway.ErrUpstream, 0)
	after.Store(int64(31 * time.Second))
	ask(aigateway.ErrUpstream, 1)
	ask(aigateway.ErrUpstream, 0)
	for range 7 { // bad requests are none of the target's failures
		if _, err := w.ask(t, s, aitest.Refusing, ""); !is(err, aigateway.ErrRefused) {
			t.Error(err)
		}
	}
	w.balanced(t)
}

// A client that goes away ends the upstream's work at once, wherever the call is, and
// what was used is booked.
func TestCase48AnAbortEndsTheUpstreamsWorkAndIsBooked(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		model  string
		at     func(w *world, c *client) bool // when the client goes
		booked string                         // outcome; "" for none
		output int64
	}{
		"before the request": {"fine", func(*world, *client) bool { return true }, "", 0},
		"while it thinks":    {aitest.Silent, func(w *world, _ *client) bool { return len(w.upstream.Calls()) > 0 }, "aborted", 1},
		"in the stream":      {aitest.Endless, func(_ *world, c *client) bool { return strings.Count(c.text(), "weaves") > 2 }, "aborted", 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			s := w.open(t, w.config(wide, one("main", aitest.Silent), one("main", aitest.Endless)))
			ctx, cancel := context.WithCancel(w.as(t.Context(), 0))
			defer cancel()
			got := &client{}
			if name == "before the request" {
				cancel()
			}
			ended := make(chan error, 1)
			go func() { ended <- s.Chat(ctx, request(c.model, `,"stream":true`), got) }()
			eventually(t, "the phase", func() bool { return c.at(w, got) })
			cancel()
			if err := <-ended; err == nil {
				t.Error("no error")
			}
			if c.booked != "" {
				eventually(t, "the upstream's end", func() bool { return w.upstream.Aborted() == 1 })
			}
			eventually(t, "the booking", func() bool {
				var n int
				_ = w.db.Direct().QueryRow(context.WithoutCancel(ctx), `select count(*) from ai_reservations`).Scan(&n)
				return n == 0
			})
			booked := w.ledger(t)
			switch {
			case c.booked == "" && len(booked) > 0:
				t.Errorf("%+v", booked)
			case c.booked != "" && (len(booked) != 1 || booked[0].Outcome != c.booked || booked[0].Output < max(c.output, 1) || !booked[0].Estimated):
				t.Errorf("%+v", booked)
			}
			w.balanced(t)
		})
	}
}

func TestAClientThatTakesNothingMoreIsGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.open(t, w.config(wide, one("main", aitest.Endless)))
	got := &client{onPiece: func(n int) error {
		if n == 4 {
			return errors.New("broken pipe")
		}
		return nil
	}}
	if err := s.Chat(w.as(t.Context(), 0), request(aitest.Endless, `,"stream":true`), got); !is(err, aigateway.ErrGone) {
		t.Error(err)
	}
	eventually(t, "the upstream's end", func() bool { return w.upstream.Aborted() == 1 })
	if b := w.ledger(t); len(b) != 1 || b[0].Outcome != "aborted" {
		t.Errorf("%+v", b)
	}
	w.balanced(t)
}

func TestUsageIsAskedOfEveryStreamAndToldToWhoAsked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.open(t, w.config(wide, one("spare", "other")))
	for _, model := range []string{"fine", "other"} {
		for _, asked := range []bool{true, false} {
			got, err := w.ask(t, s, model, fmt.Sprintf(`,"stream":true,"stream_options":{"include_usage":%t,"x":1}`, asked))
			if err != nil {
				t.Fatal(err)
			}
			if told := strings.Contains(got.text(), `"prompt_tokens":7`); told != asked {
				t.Errorf("%s, asked: %t, told: %t", model, asked, told)
			}
			for _, p := range got.pieces[:len(got.pieces)-1] {
				if !json.Valid([]byte(p)) {
					t.Error(p)
				}
			}
		}
	}
	for _, c := range w.upstream.Calls() {
		if c.Path == "/v1/chat/completions" && !cmp.Equal(c.Body["stream_options"], map[string]any{"include_usage": true, "x": 1.0}) {
			t.Errorf("%v", c.Body["stream_options"])
		}
	}
}

func TestARequestIsHandedOnWithItsOwnLimitAndWithWhatIsUnknown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.open(t, w.config(wide))
	for _, c := range []struct{ more, want string }{
		{``, `"max_tokens":10`},
		{`,"max_tokens":3`, `"max_tokens":3`},
		{`,"max_tokens":99999`, `"max_tokens":10`},
		{`,"max_completion_tokens":4`, `"max_tokens":4,"max_completion_tokens":4`},
		{`,"max_tokens":null,"n":1`, `"n":1,"max_tokens":10`},
		{`,"top_k":7,"x":{"a":[1e400,"é"]}`, `"top_k":7,"x":{"a":[1e400,"é"]},"max_tokens":10`},
	} {
		if _, err := w.ask(t, s, "fine", c.more); err != nil {
			t.Fatal(c.more, err)
		}
		calls := w.upstream.Calls()
		last := calls[len(calls)-1]
		want := fmt.Sprintf(`{"model":"fine","messages":[{"role":"user","content":%q}],%s}`, prompt, c.want)
		if string(last.Raw) != want {
			t.Errorf("%s\nnot %s", last.Raw, want)
		}
		if last.Header.Get("Authorization") != "Bearer "+key || last.Header.Get("User-Agent") != "Waypost" {
			t.Errorf("%v", last.Header)
		}
	}
}

func TestABadRequestIsRefusedBeforeAnythingIsReserved(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.open(t, w.config(wide, "{name: theirs, price: {}, roles: [ADMIN], targets: [{upstream: main, model: fine}]}", one("spare", "other")))
	for body, want := range map[string]struct {
		err   error
		param string
	}{
		`[]`:                                                                                {aigateway.ErrRequest, ""},
		`{"messages":[{}]}`:                                                                 {aigateway.ErrRequest, "model"},
		`{"model":7,"messages":[{}]}`:                                                       {aigateway.ErrRequest, "model"},
		`{"model":"fine"}`:                                                                  {aigateway.ErrRequest, "messages"},
		`{"model":"fine","messages":[]}`:                                                    {aigateway.ErrRequest, "messages"},
		`{"model":"fine","messages":[{}],"n":2}`:                                            {aigateway.ErrRequest, "n"},
		`{"model":"fine","messages":[{}],"best_of":2}`:                                      {aigateway.ErrRequest, "best_of"},
		`{"model":"fine","messages":[{}],"max_tokens":0}`:                                   {aigateway.ErrRequest, "max_tokens"},
		`{"model":"fine","messages":[{}],"max_tokens":"1"}`:                                 {aigateway.ErrRequest, "max_tokens"},
		`{"model":"fine","messages":[{}],"Max_Tokens":100000}`:                              {aigateway.ErrRequest, "Max_Tokens"},
		`{"model":"fine","messages":[{}],"max_tokens":1,"max_tokens":100000}`:               {aigateway.ErrRequest, ""},
		`{"model":"fine","messages":[{}],"stream":"yes"}`:                                   {aigateway.ErrRequest, "stream"},
		`{"model":"fine","messages":[{}],"stream_options":[]}`:                              {aigateway.ErrRequest, "stream_options"},
		`{"model":"fine","messages":[{}],"service_tier":"priority"}`:                        {aigateway.ErrRequest, "service_tier"},
		`{"model":"unknown","messages":[{}]}`:                                               {aigateway.ErrNoModel, ""},
		`{"model":"theirs","messages":[{}]}`:                                                {aigateway.ErrModelRole, ""},
		`{"model":"other","messages":[{"role":"user","content":"a"}],"logprobs":true}`:      {aigateway.ErrRequest, "logprobs"},
		`{"model":"other","messages":[{"role":"user","content":"a"}],"MAX_TOKENS":1000000}`: {aigateway.ErrRequest, "MAX_TOKENS"},
	} {
		c := &client{}
		err := s.Chat(w.as(t.Context(), 0), []byte(body), c)
		if !is(err, want.err) || c.allow.Requests != 1_000_000 {
			t.Errorf("%s: %v, %+v", body, err, c.allow)
		}
		if is(err, aigateway.ErrRequest) && !strings.Contains(fmt.Sprintf("%+v", detailsOf(err)), want.param) {
			t.Errorf("%s: %+v", body, detailsOf(err))
		}
	}
	if err := s.Embeddings(w.as(t.Context(), 0), []byte(`{"model":"other","input":"a"}`), &client{}); !is(err, aigateway.ErrRequest) {
		t.Errorf("embeddings of an Anthropic model: %v", err)
	}
	if n := len(w.upstream.Calls()); n != 0 {
		t.Errorf("the upstream was asked %d times", n)
	}
	w.balanced(t)
}

// Names and redirects may lead anywhere; addresses that are dialled may not.
func TestCase46NoPrivateAddressIsDialled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, base := range []string{w.upstream.URL, strings.Replace(w.upstream.URL, "127.0.0.1", "localhost", 1), strings.Replace(w.upstream.URL, "127.0.0.1", "[::ffff:127.0.0.1]", 1), "http://169.254.169.254", "http://10.0.0.1", "http://[fd00::1]", "http://0.0.0.0:80"} {
		d, err := aigateway.ParseYAML("f", fmt.Appendf(nil, `ai: {upstreams: [{name: u, kind: openai, base_url: %q}], models: [{name: m, price: {}, targets: [{upstream: u, model: fine}]}], limits: {timeout: 5s}}`, base+"/v1"))
		if err != nil {
			t.Fatal(err)
		}
		var log written
		s := w.open(t, d, func(o *aigateway.Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
		if _, err := w.ask(t, s, "m", ""); !is(err, aigateway.ErrUpstream) || !strings.Contains(log.String(), "allow_private") {
			t.Errorf("%s: %v; %s", base, err, log.String())
		}
	}
	if n := len(w.upstream.Calls()); n != 0 {
		t.Errorf("the upstream was asked %d times", n)
	}
	w.balanced(t)
}

func TestTheEchoAnswersWithoutAService(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.open(t, aigateway.Declared{Limits: aigateway.DefaultLimits()}.WithEcho())
	whole, err := w.ask(t, s, "echo", "")
	if err != nil || !strings.Contains(whole.body, prompt) {
		t.Fatal(err, whole.body)
	}
	stream, err := w.ask(t, s, "echo", `,"stream":true,"stream_options":{"include_usage":true}`)
	if err != nil || len(stream.pieces) != 1+5+1+1+1 || !strings.Contains(stream.pieces[7], `"completion_tokens":5`) {
		t.Fatal(err, stream.text())
	}
	for _, format := range []string{"float", "base64"} {
		c := &client{}
		if err := s.Embeddings(w.as(t.Context(), 0), []byte(`{"model":"echo","input":["a","b"],"encoding_format":"`+format+`"}`), c); err != nil || !json.Valid([]byte(c.body)) {
			t.Error(err, c.body)
		}
	}
	for _, e := range w.ledger(t) {
		if e.Cost != "0" {
			t.Errorf("%+v", e)
		}
	}
	w.balanced(t)
}

// Prompts and answers are nowhere: not in the database, and not in the log.
func TestNothingOfAPromptOrAnAnswerIsKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var log written
	s := w.open(t, w.config(wide, one("main", aitest.Refusing), one("main", aitest.Malformed)), func(o *aigateway.Options) {
		o.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	for _, model := range []string{"fine", aitest.Refusing, aitest.Malformed} {
		_, _ = w.ask(t, s, model, `,"stream":true`)
		_, _ = w.ask(t, s, model, ``)
	}
	var kept string
	if err := w.db.Direct().QueryRow(t.Context(), `select coalesce((select string_agg(c::text, ' ') from ai_calls c), '') || coalesce((select string_agg(p::text, ' ') from audit_pending p), '')`).Scan(&kept); err != nil || !strings.Contains(kept, "completed") {
		t.Fatal(err, kept)
	}
	for _, secret := range []string{prompt, "algebraic", key} {
		if strings.Contains(kept+log.String(), secret) {
			t.Errorf("%q is kept:\n%s\n%s", secret, kept, log.String())
		}
	}
}

// detailsOf are those of a fault.
func detailsOf(err error) map[string]string {
	if f, ok := errors.AsType[*fault.Error](err); ok {
		return f.Details
	}
	return nil
}
