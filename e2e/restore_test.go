package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/db/embedded"
	"github.com/waypost/waypost/e2e/outside"
)

// guide returns the shell blocks of a section of a page of the documentation.
func guide(t *testing.T, page, section string) []string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), "\n## "+section+"\n")
	if !found {
		t.Fatalf("%s has no section %s", page, section)
	}
	rest, _, _ = strings.Cut(rest, "\n## ")
	var blocks []string
	for _, m := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(rest, -1) {
		blocks = append(blocks, m[1])
	}
	return blocks
}

// newServer starts a database server that has never heard of Waypost.
func newServer(t *testing.T) *embedded.Server {
	t.Helper()
	o := embedded.Options{DataDir: dbtest.TempDir(t), BinDir: os.Getenv("WAYPOST_POSTGRES_BIN"), Download: true, Disposable: true}
	server, err := embedded.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(server.Stop(context.Background()), embedded.Remove(context.Background(), o.DataDir)); err != nil {
			t.Error(err)
		}
	})
	conn, err := pgx.Connect(t.Context(), server.AdminURL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	for _, role := range []string{embedded.OwnerRole, embedded.AppRole} {
		if _, err := conn.Exec(t.Context(), `drop role `+role); err != nil {
			t.Fatal(err)
		}
	}
	return server
}

func TestTheGuideToBackupsRestoresOntoANewServer(t *testing.T) {
	t.Parallel()
	blocks := guide(t, "../docs/operations.md", "Backups")
	if len(blocks) != 3 {
		t.Fatalf("%d blocks of commands: dump, roles, restore were expected", len(blocks))
	}
	secret := "PAYMENT_WEBHOOK_SECRET=" + outside.PaymentSecret
	path := strings.Join([]string{filepath.Dir(dbtest.Program(t, "pg_dump")), filepath.Dir(dbtest.Program(t, "psql")), filepath.Dir(binary(t)), os.Getenv("PATH")}, ":")
	here := dbtest.TempDir(t)
	shell := func(script string, env ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "sh", "-euc", script)
		cmd.Dir = here
		if code, out, errOut := runToEnd(t, cmd, append(env, "PATH="+path), ""); code != 0 {
			t.Fatalf("%s\nexit %d\n%s%s", script, code, out, errOut)
		}
	}
	deliver := func(p *process, id string) {
		t.Helper()
		body := fmt.Sprintf(`{"id":%q,"type":"payment.succeeded"}`, id)
		a := outside.Do(t, "POST", p.url+"/webhooks/payment", body, "Payment-Signature", outside.PaymentSignature(outside.PaymentSecret, body))
		var r outside.Receipt
		if a.Into(t, &r); a.Status != 200 || r.Status != "processed" {
			t.Errorf("delivery: %d %s", a.Status, a.Body)
		}
	}

	urls := dbtest.NewURL(t)
	before := startServe(t, urls.App, secret)
	admin(t, before, urls.App)
	deliver(before, "evt_before")
	site, _, key := newSite(t, urls.App, "example.com", "UTC")
	log := filepath.Join(here, "access.log")
	line := `192.0.2.1 - - [05/Jan/2024:10:00:00 +0000] "GET /%s HTTP/1.1" 200 12 "-" "Mozilla/5.0 (X11; Linux x86_64; rv:125.0) Gecko/20100101 Firefox/125.0"` + "\n"
	importing := func(databaseURL, page string) {
		t.Helper()
		if err := os.WriteFile(log, fmt.Appendf(nil, line, page), 0o600); err != nil {
			t.Fatal(err)
		}
		if code, out, errOut := command(t, serveSettings(databaseURL), "", "import", "--site", site, "--format", "combined", log); code != 0 {
			t.Fatalf("import: %s %s", out, errOut)
		}
	}
	importing(urls.App, "one")
	shell(blocks[0], "WAYPOST_DATABASE_OWNER_URL="+urls.Owner)
	before.stop(t)

	server := newServer(t)
	shell(blocks[1], "ADMIN_URL="+server.AdminURL("postgres"))
	shell(blocks[2], "DATABASE_URL="+server.AppURL("waypost"), "WAYPOST_DATABASE_OWNER_URL="+server.OwnerURL("waypost"))

	after := startServe(t, server.AppURL("waypost"), secret)
	signIn(t, after, "root@example.com", outside.Password)
	deliver(after, "evt_after")
	if n := countNow(t, server.AdminURL("waypost"), `select count(*) from webhook_events where status = 'processed'`); n != 2 {
		t.Errorf("%d deliveries after the restore, want that of before and a new one", n)
	}
	// The next month needs a new partition, which the owner's function makes.
	line = strings.ReplaceAll(line, "Jan", "Feb")
	importing(server.AppURL("waypost"), "two")
	var summary struct{ Pageviews int }
	a := outside.Do(t, "GET", after.url+"/api/stats/summary?from=2024-01-01&to=2024-02-28", "", "X-Analytics-API-Key", key)
	if a.Into(t, &summary); a.Status != 200 || summary.Pageviews != 2 {
		t.Errorf("the traffic of before and after the restore: %d %s", a.Status, a.Body)
	}
}

func TestServeRefusesADatabaseWithoutItsRightsUntilAnUpgradeRestoresThem(t *testing.T) {
	t.Parallel()
	urls := dbtest.NewURL(t)
	for _, lost := range []string{`revoke insert on webhook_events from waypost_app`, `revoke all on all tables in schema public from waypost_app`} {
		statement(t, urls.Owner, lost)
		code, _, errOut := command(t, serveSettings(urls.App), "", "serve", "--addr", "127.0.0.1:0")
		if code != 1 || !strings.Contains(errOut, "lacks rights") || !strings.Contains(errOut, "waypost migrate up") {
			t.Errorf("%s: serve exits with %d, %q", lost, code, errOut)
		}
		code, out, errOut := command(t, []string{"DATABASE_URL=" + urls.App, "WAYPOST_DATABASE_OWNER_URL=" + urls.Owner}, "", "migrate", "up")
		if code != 0 || !strings.Contains(out, "Restored: grant insert on table webhook_events to waypost_app") {
			t.Errorf("%s: migrate up exits with %d, %q %q", lost, code, out, errOut)
		}
	}
	startServe(t, urls.App)
}
