package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db/dbtest"
)

// nextVersion is the schema of the waypost that comes after this one.
const nextVersion = 99001

// buildNext builds this waypost with one more migration.
func buildNext(t *testing.T) string {
	t.Helper()
	dir := dbtest.TempDir(t)
	added := filepath.Join(dir, "next.sql")
	text := "-- +goose Up\ncreate table of_the_next_waypost (n bigint primary key);\nselect audit_cover('of_the_next_waypost');\ngrant select on of_the_next_waypost to waypost_app;\n-- +goose Down\ndrop table of_the_next_waypost;\n"
	place, err := filepath.Abs(fmt.Sprintf("../db/migrations/%d_next.sql", nextVersion))
	if err != nil {
		t.Fatal(err)
	}
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{place: added}})
	if err != nil {
		t.Fatal(err)
	}
	program, config := filepath.Join(dir, "waypost-next"), filepath.Join(dir, "overlay.json")
	for file, body := range map[string]string{added: text, config: string(overlay)} {
		if err := os.WriteFile(file, []byte(body), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-overlay", config, "-o", program, "../cmd/waypost")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return program
}

// rotation is what a load balancer has: the instances that take requests.
type rotation struct {
	mu   sync.RWMutex
	urls []string
}

func (r *rotation) set(instances ...*process) {
	r.mu.Lock() // requests in flight end first
	defer r.mu.Unlock()
	r.urls = nil
	for _, p := range instances {
		r.urls = append(r.urls, p.url)
	}
}

// deliveries posts webhooks to the rotation from several senders until the stop
// function is called, which returns how many were acknowledged, and fails the test
// for each one that was not.
func (r *rotation) deliveries(t *testing.T) (stop func() int) {
	const senders = 4
	ended := make(chan struct{})
	var wg sync.WaitGroup
	counts := make([]int, senders)
	for s := range senders {
		wg.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-ended:
					return
				default:
				}
				if err := r.deliver(fmt.Sprintf(`{"id":"evt_%d_%d","type":"payment.succeeded"}`, s, n), n+s); err != nil {
					t.Errorf("delivery %d of sender %d: %v", n, s, err)
					return
				}
				counts[s]++
			}
		})
	}
	return func() int {
		close(ended)
		wg.Wait()
		sum := 0
		for _, n := range counts {
			sum += n
		}
		return sum
	}
}

func (r *rotation) deliver(body string, n int) error {
	r.mu.RLock()
	defer r.mu.RUnlock()
	url := r.urls[n%len(r.urls)] + "/webhooks/payment"
	req, err := http.NewRequest("POST", url, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Payment-Signature", paymentSignature(paymentSecret, body))
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, res.Status)
	}
	return nil
}

func TestARollingUpgradeLosesNoRequest(t *testing.T) {
	t.Parallel()
	next := buildNext(t)
	urls := dbtest.NewURL(t)
	secret := "PAYMENT_WEBHOOK_SECRET=" + paymentSecret
	ready := func(p *process, want int) {
		t.Helper()
		if a := do(t, "GET", p.url+"/readyz", ""); a.status != want || want != 200 && !strings.Contains(string(a.body), `"migrations":"failed"`) {
			t.Errorf("readiness: %d %s, want %d", a.status, a.body, want)
		}
	}
	owner := []string{"DATABASE_URL=" + urls.App, "WAYPOST_DATABASE_OWNER_URL=" + urls.Owner}
	migrate := func(program string) (int, string, string) {
		t.Helper()
		return runToEnd(t, exec.CommandContext(t.Context(), program, "migrate", "up"), owner, "")
	}

	var r rotation
	old := startServe(t, urls.App, secret)
	r.set(old)
	stop := r.deliveries(t)
	if code, out, errOut := migrate(next); code != 0 || !strings.Contains(out, fmt.Sprintf("Applied %d_next.sql", nextVersion)) {
		t.Fatalf("migrate up: exit %d, %q %q", code, out, errOut)
	}
	ready(old, 200)
	// An old one that crashes in this window starts again.
	crashed := startServe(t, urls.App, secret)
	ready(crashed, 200)
	fresh := startServeOf(t, next, urls.App, secret)
	r.set(old, crashed, fresh)
	if code, out, errOut := migrate(binary(t)); code != 0 || !strings.Contains(out, "compatible") {
		t.Errorf("migrate up of the old one: exit %d, %q %q", code, out, errOut)
	}
	r.set(crashed, fresh)
	old.stop(t)
	ready(crashed, 200)
	acknowledged := stop()
	if stored := countNow(t, urls.Admin, `select count(*) from webhook_events where status = 'processed'`); stored != acknowledged || stored == 0 {
		t.Errorf("%d acknowledged, %d stored and processed", acknowledged, stored)
	}

	// What a migration does that takes something away from older programs.
	conn, err := pgx.Connect(t.Context(), urls.Owner)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	if _, err := conn.Exec(t.Context(), `update installation set compatible_from = $1`, nextVersion); err != nil {
		t.Fatal(err)
	}
	ready(crashed, 503)
	ready(fresh, 200)
	for name, args := range map[string][]string{"serve": {"serve", "--addr", "127.0.0.1:0"}, "serve --migrate": {"serve", "--migrate", "--addr", "127.0.0.1:0"}, "migrate up": {"migrate", "up"}} {
		code, out, errOut := command(t, append(serveSettings(urls.App), owner[1]), "", args...)
		if code != 1 || !strings.Contains(errOut, "too old for the database") || !strings.Contains(errOut, fmt.Sprint(nextVersion)) {
			t.Errorf("%s below the floor: exit %d, %q %q", name, code, out, errOut)
		}
	}
}
