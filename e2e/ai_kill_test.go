package e2e_test

import (
	"bufio"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/e2e/outside"
	"github.com/waypost/waypost/internal/aigateway/aitest"
)

// A client that goes away, and a service that is killed, in the middle of a stream: the
// upstream stops at once, and each call is booked once.
func TestAStreamIsBookedWhoeverBreaksItOff(t *testing.T) {
	t.Parallel()
	upstream, closeUpstream := aitest.New()
	t.Cleanup(closeUpstream)
	file := filepath.Join(dbtest.TempDir(t), "waypost.yaml")
	text := fmt.Sprintf("ai:\n  upstreams: [{name: main, kind: openai, base_url: %q, allow_private: true}]\n  models: [{name: endless, max_output: 50, price: {output: 1000}, targets: [{upstream: main, model: endless}]}]\n", upstream.URL+"/v1")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p, database := serve(t, "WAYPOST_CONFIG="+file)
	token := admin(t, p, database)
	conn, err := pgx.Connect(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	ledger := func() (booked []string) {
		rows, err := conn.Query(t.Context(), `select outcome || ' ' || (output_tokens > 0)::text from ai_calls order by at`)
		if err != nil {
			t.Fatal(err)
		}
		booked, err = pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		return booked
	}
	wait := func(what string, happened func() bool) {
		t.Helper()
		for deadline := time.Now().Add(outside.Patience); !happened(); time.Sleep(20 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("it did not happen: " + what)
			}
		}
	}

	closeStream := streamOf(t, p.url, token)
	closeStream()
	wait("the upstream's end, after an abort", func() bool { return upstream.Aborted() == 1 })
	wait("the booking of an abort", func() bool { return len(ledger()) == 1 })

	streamOf(t, p.url, token)
	p.kill()
	wait("the upstream's end, after a kill", func() bool { return upstream.Aborted() == 2 })
	// As if the time of the lease had passed.
	if _, err := conn.Exec(t.Context(), `update ai_reservations set lease_until = now() - interval '1 second'`); err != nil {
		t.Fatal(err)
	}
	p = startServe(t, database, "WAYPOST_CONFIG="+file)
	wait("the booking of what the crash left", func() bool { return len(ledger()) == 2 })
	if got := strings.Join(ledger(), ", "); got != "aborted true, lost true" {
		t.Error(got)
	}
	var usage struct {
		Data []struct {
			Requests, OutputTokens int64
			Cost                   float64
		}
	}
	outside.Do(t, "GET", p.url+"/api/ai/usage", "", outside.Bearer(token)...).Into(t, &usage)
	var reserved, differences int
	if err := conn.QueryRow(t.Context(), `select (select count(*) from ai_reservations), (select count(*) from ai_meters where reserved <> 0 or spent <> (select sum(cost) from ai_calls))`).Scan(&reserved, &differences); err != nil || reserved != 0 || differences != 0 {
		t.Errorf("%v: %d reservations, %d wrong meters", err, reserved, differences)
	}
	// 50 tokens at a thousandth for what was lost, and what the client got before it went.
	if len(usage.Data) != 1 || usage.Data[0].Requests != 2 || usage.Data[0].Cost <= 0.05 {
		t.Errorf("%+v", usage)
	}
}

// streamOf begins a stream, and returns once some of it has come.
func streamOf(t *testing.T, url, token string) func() {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/api/ai/v1/chat/completions", strings.NewReader(`{"model":"endless","stream":true,"messages":[{"role":"user","content":"Go on"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+token)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = res.Body.Close() })
	lines := bufio.NewScanner(res.Body)
	for n := 0; n < 5 && lines.Scan(); {
		if strings.Contains(lines.Text(), "weaves") {
			n++
		}
	}
	if lines.Err() != nil || res.StatusCode != http.StatusOK {
		t.Fatal(res.Status, lines.Err())
	}
	return func() { _ = res.Body.Close() }
}
