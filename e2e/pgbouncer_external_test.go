//go:build external

package e2e_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/e2e/outside"
)

// bounce starts PgBouncer in transaction mode, with fewer connections to the server than a
// service has to it. Each of its databases is the server's, as the role that users has for it.
func bounce(t *testing.T, server string, users map[string]string) *bouncer {
	t.Helper()
	to, err := pgx.ParseConfig(server)
	if err != nil {
		t.Fatal(err)
	}
	var databases strings.Builder
	for name, user := range users {
		fmt.Fprintf(&databases, "%s = host=%s port=%d dbname=%s user=%s\n", name, to.Host, to.Port, to.Database, user)
	}
	p, err := newBouncer(dbtest.TempDir(t), to.Host, databases.String(), "auth_type = any\ndefault_pool_size = 8\n")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Log("pgbouncer:\n", tail(p.said.String(), 2000))
		}
	})
	return p
}

// url is the connection string of one of its databases; nobody asks for a password.
func (b *bouncer) url(name string) string {
	return fmt.Sprintf("postgres://somebody@%s/%s?sslmode=disable", b.address, name)
}

// The pooler has eight connections for the service's 25, so that each transaction gets
// another one.
func TestServeWorksBehindATransactionPooler(t *testing.T) {
	t.Parallel()
	for name, direct := range map[string]bool{"with a way past it": true, "alone": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			urls := dbtest.NewURL(t)
			pooler := bounce(t, urls.App, map[string]string{"app": "waypost_app"})
			pooled := pooler.url("app")
			got := make(chan string, 300)
			target := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- r.Header.Get("Webhook-Id") }))
			t.Cleanup(target.Close)
			file := filepath.Join(dbtest.TempDir(t), "waypost.yaml")
			handlers := "webhooks:\n  handlers:\n    - {provider: payment, event: order.paid, forward: {url: \"" + target.URL + "\", secret_env: FORWARD_SECRET}}\n"
			if err := os.WriteFile(file, []byte(handlers), 0o600); err != nil {
				t.Fatal(err)
			}
			env := []string{
				"WAYPOST_DATABASE_POOLED=true", "WAYPOST_CONFIG=" + file, "PAYMENT_WEBHOOK_SECRET=" + outside.PaymentSecret,
				"FORWARD_SECRET=whsec_" + base64.StdEncoding.EncodeToString([]byte("a key of the forward, long enough")),
			}
			if direct {
				env = append(env, "WAYPOST_DATABASE_DIRECT_URL="+urls.App+"&application_name=past")
			}
			p := startServe(t, pooled, env...)
			worksBehindPooler(t, p, urls.App, got)
			const listens = `select count(*) from pg_stat_activity where datname = current_database() and application_name = 'past' and (query ilike 'listen %' or query = '-- ping')`
			if direct != (countNow(t, urls.Admin, listens) > 0) {
				t.Error("whether it listens for jobs is wrong")
			}
			if n := countNow(t, urls.Admin, `select count(*) from pg_stat_activity where datname = current_database() and application_name = 'waypost'`); n > 8 {
				t.Errorf("%d connections to the server: it did not go through the pooler", n)
			}
			if strings.Contains(p.stderr.String(), `"level":"ERROR"`) {
				t.Error("errors in the log")
			}
			if code, out, errOut := command(t, []string{"DATABASE_URL=" + pooled, "WAYPOST_DATABASE_POOLED=true"}, "", "site", "list"); code != 0 || !strings.Contains(out, "example.com") {
				t.Errorf("a command: exit %d %s %s", code, out, errOut)
			}
			pooler.kill()
			if a := outside.Do(t, "GET", p.url+"/readyz", ""); a.Status != http.StatusServiceUnavailable {
				t.Errorf("readiness without the pooler: %d %s", a.Status, a.Body)
			}
			if err := pooler.start(); err != nil {
				t.Fatal(err)
			}
			p.waitFor(t, "the pooler", func() bool { return outside.Do(t, "GET", p.url+"/readyz", "").Status == http.StatusOK })
			const body = `{"id":"evt_after","type":"order.seen"}`
			p.waitFor(t, "deliveries", func() bool {
				return outside.Do(t, "POST", p.url+"/webhooks/payment", body, "Payment-Signature", outside.PaymentSignature(outside.PaymentSecret, body)).Status == http.StatusOK
			})
		})
	}
}

// worksBehindPooler delivers, collects, asks and waits for jobs, many at once.
func worksBehindPooler(t *testing.T, p *process, databaseURL string, forwarded <-chan string) {
	t.Helper()
	_, public, key := newSite(t, databaseURL, "example.com", "UTC")
	token := admin(t, p, databaseURL)
	const each = 100
	statuses := make(chan string, 6*each)
	var all sync.WaitGroup
	for n := range each {
		for what, ask := range map[string]func() int{
			"a delivery": func() int {
				kind := []string{"order.paid", "order.seen"}[n%2]
				body := fmt.Sprintf(`{"id":"evt_%d","type":%q}`, n, kind)
				return outside.Do(t, "POST", p.url+"/webhooks/payment", body, "Payment-Signature", outside.PaymentSignature(outside.PaymentSecret, body)).Status
			},
			"a hit": func() int {
				return outside.Do(t, "POST", p.url+"/api/collect", fmt.Sprintf(`{"site_key":%q,"url":"https://example.com/%d"}`, public, n%7), "User-Agent", visitorAgent).Status
			},
			"a post": func() int {
				return outside.Do(t, "POST", p.url+"/api/posts", fmt.Sprintf(`{"title":"Post %d","body":"Its words.","tags":[]}`, n), "Authorization", "Bearer "+token, "Content-Type", "application/json").Status
			},
			"a list": func() int {
				return outside.Do(t, "GET", p.url+"/api/admin/webhooks?total=true", "", "Authorization", "Bearer "+token).Status
			},
		} {
			if what != "a delivery" && what != "a hit" && n%5 != 0 {
				continue
			}
			all.Go(func() { statuses <- fmt.Sprint(what, " ", ask()) })
		}
	}
	all.Wait()
	close(statuses)
	counts := map[string]int{}
	for s := range statuses {
		counts[s]++
	}
	if counts["a delivery 200"] != each || counts["a hit 202"] != each || counts["a post 200"] != each/5 || counts["a list 200"] != each/5 {
		t.Errorf("answers: %v", counts)
	}
	for range each / 2 {
		select {
		case <-forwarded:
		case <-time.After(outside.Patience):
			t.Fatal("a job did not forward its event")
		}
	}
	p.waitFor(t, "the counts of hits", func() bool {
		q := url.Values{"filter[path]": {"/1"}}
		for _, query := range []string{"", "?" + q.Encode()} {
			a := outside.Do(t, "GET", p.url+"/api/stats/summary"+query, "", "X-Analytics-API-Key", key)
			if a.Status != http.StatusOK || strings.Contains(string(a.Body), `"pageviews":0`) {
				return false
			}
		}
		return true
	})
	if a := outside.Do(t, "GET", p.url+"/api/admin/audit/verify", "", "Authorization", "Bearer "+token); a.Status != http.StatusOK || !strings.Contains(string(a.Body), `"ok":true`) {
		t.Errorf("the audit log: %d %s", a.Status, a.Body)
	}
	if a := outside.Do(t, "GET", p.url+"/readyz", ""); a.Status != http.StatusOK {
		t.Errorf("readiness: %d %s", a.Status, a.Body)
	}
}

func TestAPoolerThatCannotWorkIsAStartUpErrorThatSaysWhatToDo(t *testing.T) {
	t.Parallel()
	urls := dbtest.NewURL(t)
	member := "member_" + strings.ToLower(filepath.Base(dbtest.TempDir(t))[len("files-"):])
	behind(t, urls.Admin, `create role `+member+` login in role waypost_app`)
	t.Cleanup(func() {
		conn, err := pgx.Connect(context.Background(), urls.Admin)
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = conn.Close(context.Background()) }()
		if _, err := conn.Exec(context.Background(), `drop role `+member); err != nil {
			t.Error(err)
		}
	})
	at := bounce(t, urls.App, map[string]string{"app": "waypost_app", "member": member, "owner": "waypost_owner"}).url
	for what, c := range map[string]struct {
		env  []string
		args []string
		want []string
	}{
		"nobody said that there is one": {serveSettings(at("app")), []string{"serve", "--addr", "127.0.0.1:0"}, []string{"WAYPOST_DATABASE_POOLED=true", "Behind a connection pooler"}},
		"another role":                  {append(serveSettings(at("member")), "WAYPOST_DATABASE_POOLED=true"), []string{"serve", "--addr", "127.0.0.1:0"}, []string{`ALTER ROLE "` + member + `" SET role = 'waypost_app'`}},
		"migrations":                    {[]string{"DATABASE_URL=" + at("owner"), "WAYPOST_DATABASE_POOLED=true"}, []string{"migrate", "up"}, []string{"WAYPOST_DATABASE_OWNER_URL", "WAYPOST_DATABASE_DIRECT_URL"}},
		"a way past what isn't there":   {append(serveSettings(urls.App), "WAYPOST_DATABASE_DIRECT_URL="+urls.App), []string{"serve", "--addr", "127.0.0.1:0"}, []string{"WAYPOST_DATABASE_POOLED=true"}},
	} {
		code, out, errOut := command(t, c.env, "", c.args...)
		for _, want := range c.want {
			if code == 0 || !strings.Contains(errOut, want) {
				t.Errorf("%s: exit %d, want %s in: %s%s", what, code, want, out, errOut)
			}
		}
	}
	// What the error says mends it.
	behind(t, urls.Admin, `alter role `+member+` set role = 'waypost_app'`)
	p := startServe(t, bounce(t, urls.App, map[string]string{"member": member}).url("member"), "WAYPOST_DATABASE_POOLED=true")
	if said := p.stderr.String(); !strings.Contains(said, "SET jit = off") {
		t.Errorf("nothing is said of jit: %s", said)
	}
}

func (b *bouncer) kill() {
	b.killed.Store(true)
	_ = b.cmd.Process.Kill()
	<-b.exited
}
