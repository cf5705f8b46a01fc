package e2e_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/e2e/outside"
)

func TestABrokenChainIsToldByReadinessLogAndAlert(t *testing.T) {
	t.Parallel()
	urls := dbtest.NewURL(t)
	if code, out, errOut := command(t, []string{"DATABASE_URL=" + urls.App}, outside.Password+"\n",
		"user", "create", "--email", "root@example.com", "--first-name", "Ro", "--last-name", "Ot", "--role", "admin"); code != 0 {
		t.Fatalf("user create: %d %s %s", code, out, errOut)
	}
	owner, err := pgx.Connect(t.Context(), urls.Owner)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = owner.Close(context.WithoutCancel(t.Context())) }()
	var seq int64
	if err := owner.QueryRow(t.Context(), `update audit_log set actor_id = 'somebody else' where table_name = 'users' returning seq`).Scan(&seq); err != nil {
		t.Fatal(err)
	}
	alerts := make(chan []byte, 8)
	sink := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := make([]byte, r.ContentLength)
		_, _ = r.Body.Read(body)
		if r.Header.Get("Webhook-Signature") == "" {
			http.Error(w, "unsigned", http.StatusBadRequest)
			return
		}
		alerts <- body
	}))
	defer sink.Close()
	p := startServe(t, urls.App, "WAYPOST_WEBHOOK_ALERT_URL="+sink.URL, "WAYPOST_WEBHOOK_ALERT_SECRET=whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	select {
	case body := <-alerts:
		var alert struct {
			Type string
			Data struct {
				Seq    int64
				Reason string
			}
		}
		if err := json.Unmarshal(body, &alert); err != nil || alert.Type != "waypost.audit.broken" || alert.Data.Seq != seq || alert.Data.Reason != "row_hash" {
			t.Errorf("alert: %s, %v; want entry %d", body, err, seq)
		}
	case <-time.After(outside.Patience):
		t.Fatal("no alert")
	}
	p.waitFor(t, "broken chain in readiness", func() bool {
		a := outside.Do(t, "GET", p.url+"/readyz", "")
		return a.Status == http.StatusOK && strings.Contains(string(a.Body), `"audit":"broken"`)
	})
	if log := p.stderr.String(); !strings.Contains(log, `"level":"ERROR","msg":"the audit log is broken"`) {
		t.Errorf("the log says nothing of it: %s", tail(log, 2000))
	}
	// Once to each ADMIN and verification, though it is found each minute.
	var mails int
	if err := owner.QueryRow(t.Context(), `select count(*) from mails where template = 'alert' and recipient = 'root@example.com'
		and text like '%The audit log is broken at entry%row\_hash%'`).Scan(&mails); err != nil || mails < 1 || mails > 2 {
		t.Errorf("%d mails about it, %v", mails, err)
	}
	code, out, errOut := command(t, []string{"DATABASE_URL=" + urls.App}, "", "audit", "verify")
	if code != 1 || !strings.Contains(out, "row_hash") {
		t.Errorf("audit verify: exit %d, %s %s", code, out, errOut)
	}
}

func TestServeRefusesADatabaseThatTheAuditLogDoesNotCover(t *testing.T) {
	t.Parallel()
	urls := dbtest.NewURL(t)
	owner, err := pgx.Connect(t.Context(), urls.Owner)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = owner.Close(context.WithoutCancel(t.Context())) }()
	if _, err := owner.Exec(t.Context(), `alter table users enable trigger audit_row`); err != nil {
		t.Fatal(err)
	}
	code, out, errOut := command(t, serveSettings(urls.App), "", "serve", "--addr", "127.0.0.1:0")
	if code != 1 || !strings.Contains(errOut, "users: its trigger audit_row is not ENABLE ALWAYS") || !strings.Contains(errOut, "docs/audit.md") {
		t.Errorf("serve: exit %d, %s %s", code, out, errOut)
	}
}
