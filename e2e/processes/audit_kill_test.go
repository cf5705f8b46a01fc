package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/e2e/auditproof"
	"github.com/waypost/waypost/e2e/outside"
)

// authors write posts through whichever process answers.
type authors struct {
	token string
	mu    sync.Mutex
	urls  []string
	made  int // answered 200
}

func (a *authors) set(processes []*process) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.urls = nil
	for _, p := range processes {
		if p != nil {
			a.urls = append(a.urls, p.url)
		}
	}
}

// write posts once to some process.
func (a *authors) write(n int) {
	a.mu.Lock()
	if len(a.urls) == 0 {
		a.mu.Unlock()
		<-time.After(5 * time.Millisecond)
		return
	}
	url := a.urls[rand.N(len(a.urls))]
	a.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), outside.Patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/api/posts", strings.NewReader(fmt.Sprintf(`{"title":"Post %d","body":"Text."}`, n)))
	if err != nil {
		return
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+a.token)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return
	}
	defer func() { _ = res.Body.Close() }()
	_, _ = io.Copy(io.Discard, res.Body)
	if res.StatusCode == http.StatusOK {
		a.mu.Lock()
		a.made++
		a.mu.Unlock()
	}
}

func TestEveryChangeHasItsPlaceInTheChainThoughProcessesAreKilled(t *testing.T) {
	t.Parallel()
	urls := dbtest.NewURL(t)
	serve := func() *process { return startServe(t, urls.App, "WAYPOST_DATABASE_MAX_CONNS=14") }
	processes := []*process{serve(), serve()}
	a := &authors{token: admin(t, processes[0], urls.App)}
	a.set(processes)
	stop := make(chan struct{})
	var running sync.WaitGroup
	repeat := func(once func(n int)) {
		running.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
					once(n)
				}
			}
		})
	}
	for range 32 {
		repeat(a.write)
	}
	repeat(func(n int) {
		if code, out, errOut := command(t, []string{"DATABASE_URL=" + urls.App}, outside.Password+"\n",
			"user", "create", "--email", fmt.Sprintf("colleague-%d@example.com", n), "--first-name", "Co", "--last-name", "League"); code != 0 {
			t.Errorf("user create: %d %s %s", code, out, errOut)
		}
	})
	for round := range 8 {
		<-time.After(rand.N(500 * time.Millisecond)) // the instant is what is random
		victims := []int{round % 2}
		if round%4 == 3 {
			victims = []int{0, 1}
		}
		for _, v := range victims {
			processes[v].kill()
			processes[v] = nil
		}
		a.set(processes)
		for _, v := range victims {
			processes[v] = serve()
		}
		a.set(processes)
	}
	close(stop)
	running.Wait()
	for _, p := range processes {
		p.kill()
	}
	started := time.Now()
	p := serve()
	conn, err := pgx.Connect(t.Context(), urls.Admin)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	left := func() (n int) {
		if err := conn.QueryRow(t.Context(), `select count(*) from audit_pending`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	p.waitFor(t, "place for the last entry", func() bool { return left() == 0 })
	t.Logf("all sealed %v after the start; %d posts were acknowledged", time.Since(started), a.made)
	for table, query := range map[string]string{
		"posts": `select (select count(*) from posts), (select count(*) from audit_log where table_name = 'posts' and op = 'insert' and action = 'create-post')`,
		"users": `select (select count(*) from users), (select count(*) from audit_log where table_name = 'users' and op = 'insert' and action = 'cli:user create')`,
	} {
		var rows, entries int
		if err := conn.QueryRow(t.Context(), query).Scan(&rows, &entries); err != nil || rows != entries || rows < 3 {
			t.Errorf("%s: %d rows, %d entries, %v", table, rows, entries, err)
		}
	}
	var posts int
	if err := conn.QueryRow(t.Context(), `select count(*) from posts`).Scan(&posts); err != nil || posts < a.made || a.made == 0 {
		t.Errorf("%d posts, of which %d were acknowledged, %v", posts, a.made, err)
	}
	wantWhole(t, p, a.token, urls.App)
}

// wantWhole verifies the log through the API, by the command, and by the independent
// verifier, of an export with its checkpoints.
func wantWhole(t *testing.T, p *process, token, databaseURL string) {
	t.Helper()
	get := func(path string) outside.Answer {
		a := outside.Do(t, "GET", p.url+"/api/admin/audit"+path, "", "Authorization", "Bearer "+token)
		if a.Status != http.StatusOK {
			t.Fatalf("%s: %d %s", path, a.Status, a.Body)
		}
		return a
	}
	var verdict struct {
		Data struct {
			OK       bool
			Checked  int64
			Unsealed int
			FirstBad json.RawMessage `json:"first_bad"`
		}
	}
	get("/verify").Into(t, &verdict)
	if !verdict.Data.OK || verdict.Data.Unsealed != 0 {
		t.Errorf("verify: %+v %s", verdict.Data, verdict.Data.FirstBad)
	}
	if code, out, errOut := command(t, []string{"DATABASE_URL=" + databaseURL}, "", "audit", "verify"); code != 0 {
		t.Errorf("audit verify: %d %s %s", code, out, errOut)
	}
	var key struct {
		Data struct {
			VerifierKey string `json:"verifier_key"`
		}
	}
	get("/key").Into(t, &key)
	var kept struct{ Data []struct{ Note string } }
	get("/checkpoints?limit=100").Into(t, &kept)
	var notes strings.Builder
	for i := len(kept.Data) - 1; i >= 0; i-- {
		notes.WriteString(kept.Data[i].Note)
	}
	report, err := auditproof.Check(bytes.NewReader(get("/export").Body), strings.NewReader(notes.String()), key.Data.VerifierKey)
	if err != nil || report.Bad != nil || len(kept.Data) == 0 {
		t.Errorf("the independent verifier: %+v, %v, with %d checkpoints", report, err, len(kept.Data))
	}
}
