package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/e2e/outside"
	"github.com/waypost/waypost/internal/mail/smtptest"
)

// scriptOf is a script that leaves an attribute and an element, told apart from others
// by its label, which says where it was stored.
func scriptOf(label string) string { return `'"><script>alert("` + label + `")</script>` }

// strewn is a service in which outsiders and users have stored scripts wherever they are let.
type strewn struct {
	*process
	database string   // as its owner
	bearer   []string // the administrator's
	secret   string   // of the payment provider
	// labels say what was stored and, when it is looked at, is on some page of the desk.
	labels []string
	// unlinked are pages that nothing leads to yet.
	unlinked []string
}

// withTarget is a configuration with a target, which has a page.
func withTarget(t *testing.T) string {
	t.Helper()
	config := filepath.Join(dbtest.TempDir(t), "waypost.yaml")
	if err := os.WriteFile(config, []byte("webhooks: {handlers: [{provider: codehost, event: forwarded, forward: {url: \"http://127.0.0.1:9\", secret_env: FORWARD_SECRET}}]}"), 0o600); err != nil {
		t.Fatal(err)
	}
	return config
}

// strew makes one.
func strew(t *testing.T) *strewn {
	t.Helper()
	urls, sink := dbtest.NewURL(t), smtptest.Start(t, smtptest.Options{Username: "waypost", Password: "Pl4ntedSMTPPassword"})
	p := startServe(t, urls.App, append(mailing(sink), "WAYPOST_DATABASE_VIEWER_URL="+urls.Viewer, "WAYPOST_UPLOAD_DIR="+dbtest.TempDir(t), "WAYPOST_CONFIG="+withTarget(t), "PAYMENT_WEBHOOK_SECRET="+outside.PaymentSecret)...)
	s := &strewn{process: p, database: urls.Owner, secret: outside.PaymentSecret}
	s.bearer = []string{"Authorization", "Bearer " + admin(t, p, urls.App), "Content-Type", "application/json"}
	s.fill(t)
	return s
}

func (s *strewn) fill(t *testing.T) {
	t.Helper()
	s.accounts(t)
	s.webhooks(t)
	s.statistics(t)
	s.unlinked = []string{
		"/admin/jobs?state=discarded",
		"/admin/observability/route?method=GET&route=%2Fhealthz", // until a minute is over
		"/admin/webhooks/replays/" + s.post(t, "/api/admin/webhooks/replay", map[string]any{"status": "failed"}),
	}
	s.behind(t)
}

// in is the script of a label, which a page is to show.
func (s *strewn) in(label string) string {
	s.labels = append(s.labels, label)
	return scriptOf(label)
}

// post sends members as JSON, and returns the id of what it made.
func (s *strewn) post(t *testing.T, path string, members map[string]any) string {
	t.Helper()
	body, err := json.Marshal(members)
	if err != nil {
		t.Fatal(err)
	}
	a := outside.Do(t, "POST", s.url+path, string(body), s.bearer...)
	var made struct{ Data struct{ ID any } }
	if a.Status >= 300 {
		t.Fatalf("%s: %d %s", path, a.Status, a.Body)
	}
	if len(a.Body) > 0 {
		a.Into(t, &made)
	}
	if n, ok := made.Data.ID.(float64); ok {
		return fmt.Sprint(int64(n))
	}
	return fmt.Sprint(made.Data.ID)
}

func (s *strewn) accounts(t *testing.T) {
	t.Helper()
	const password = "correct horse battery staple"
	eve := map[string]any{"first_name": s.in("first-name"), "last_name": s.in("last-name"), "email": "e'v&e=`{{.}}@example.com", "password": password} // what RFC 5322 calls atoms
	s.post(t, "/api/auth/register", eve)
	behind(t, s.database, "begin; "+asTest+"update users set email_verified_at = now(); commit")
	in := outside.Do(t, "POST", s.url+"/api/auth/login", `{"email":"e'v&e=\u0060{{.}}@example.com","password":"`+password+`"}`, "Content-Type", "application/json", "User-Agent", s.in("session-agent"))
	var login struct {
		Data struct {
			AccessToken string `json:"access_token"`
		}
	}
	in.Into(t, &login)
	hers := []string{"Authorization", "Bearer " + login.Data.AccessToken, "Content-Type", "application/json"}
	made := outside.Do(t, "POST", s.url+"/api/auth/tokens", fmt.Sprintf(`{"name":%q,"scopes":["read"]}`, s.in("token-name")), hers...)
	if made.Status != http.StatusCreated {
		t.Fatalf("%d %s", made.Status, made.Body)
	}
	bot := s.post(t, "/api/admin/service-accounts", map[string]any{"name": s.in("service-account"), "role": "EDITOR", "active": true})
	s.post(t, "/api/admin/service-accounts/"+bot+"/tokens", map[string]any{"name": s.in("service-token"), "scopes": []string{"read"}})
	s.post(t, "/api/posts", map[string]any{"title": scriptOf("post-title"), "body": scriptOf("post-body"), "tags": []string{"a"}})
	s.picture(t)
	s.post(t, "/api/admin/mails/test", map[string]any{"to": "ada@example.com"})
}

// picture uploads an image, and waits for its thumbnail. A file's name has no slash.
func (s *strewn) picture(t *testing.T) {
	t.Helper()
	var file bytes.Buffer
	if err := png.Encode(&file, image.NewGray(image.Rect(0, 0, 300, 200))); err != nil {
		t.Fatal(err)
	}
	s.labels = append(s.labels, "filename")
	body, header := outside.FormOf("file", `'"><img src=x onerror=alert("filename")>`, "image/png", file.String())
	if sent := outside.Do(t, "POST", s.url+"/api/uploads", string(body), append(header, s.bearer[:2]...)...); sent.Status != http.StatusCreated {
		t.Fatalf("%d %s", sent.Status, sent.Body)
	}
	s.waitFor(t, "the thumbnail", func() bool {
		return countNow(t, s.database, "select count(*) from uploads where thumbnail_type is not null") > 0
	})
}

func (s *strewn) webhooks(t *testing.T) {
	t.Helper()
	for i, kind := range []string{"payment.succeeded", s.in("event-type")} {
		body := fmt.Sprintf(`{"id":%q,"type":%q,"note":%q}`, s.in(fmt.Sprint("event-id-", i)), kind, s.in(fmt.Sprint("payload-", i)))
		a := outside.Do(t, "POST", s.url+"/webhooks/payment", body, "Payment-Signature", outside.PaymentSignature(s.secret, body), "Content-Type", "application/json", "User-Agent", s.in(fmt.Sprint("sender-", i)))
		if a.Status != http.StatusOK {
			t.Fatalf("%d %s", a.Status, a.Body)
		}
	}
	outside.Do(t, "POST", s.url+"/webhooks/"+url.PathEscape(strings.TrimSuffix(s.in("provider"), "</script>")), "{}", "User-Agent", scriptOf("refused-agent"), "X-Note", scriptOf("refused-header"))
	outside.Do(t, "GET", s.url+"/"+url.PathEscape(scriptOf("route"))+"?q="+url.QueryEscape(scriptOf("query")), "", "X-Request-Id", scriptOf("request-id"))
}

func (s *strewn) statistics(t *testing.T) {
	t.Helper()
	var site struct {
		Data struct {
			ID      string
			SiteKey string `json:"site_key"`
		}
	}
	for _, name := range []string{"odd-site", "site-name"} {
		outside.Do(t, "POST", s.url+"/api/admin/sites", fmt.Sprintf(`{"name":%q,"domain":%q,"timezone":"UTC"}`, s.in(name), name+".example.com"), s.bearer...).Into(t, &site)
	}
	if site.Data.SiteKey == "" {
		t.Fatalf("no key of the site: %+v", site)
	}
	s.post(t, "/api/admin/sites/"+site.Data.ID+"/keys", map[string]any{"name": s.in("key-name"), "scope": "read"})
	for _, hit := range []map[string]any{
		{"url": "/" + s.in("path") + "?" + url.Values{"utm_source": {scriptOf("utm-source")}, "utm_campaign": {s.in("utm-campaign")}, "utm_medium": {scriptOf("utm-medium")}}.Encode()},
		{"url": "/", "name": s.in("event-name"), "props": map[string]any{scriptOf("prop"): scriptOf("prop-value")}, "referrer": "https://" + scriptOf("referrer") + ".example/"},
	} {
		hit["site_key"], hit["url"] = site.Data.SiteKey, "https://site-name.example.com"+hit["url"].(string)
		body, err := json.Marshal(hit)
		if err != nil {
			t.Fatal(err)
		}
		if a := outside.Do(t, "POST", s.url+"/api/collect", string(body), "Content-Type", "application/json", "User-Agent", "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"); a.Status != http.StatusAccepted {
			t.Fatalf("%d %s", a.Status, a.Body)
		}
	}
}

// asTest says to the audit log who writes behind the service's back.
const asTest = "set local waypost.actor_type = 'system'; set local waypost.actor_id = 'test'; "

// behind stores what a check refuses today: a page trusts no row.
func (s *strewn) behind(t *testing.T) {
	t.Helper()
	s.waitFor(t, "the test mail to be sent", func() bool {
		return countNow(t, s.database, "select count(*) from mails where status = 'sent'") > 0
	})
	statements := map[string]string{
		"domain":        "update sites set domain = $$ where domain = 'odd-site.example.com'",
		"handler-error": "update webhook_events set status = 'failed', handler_error = $$, processed_at = null where event_type <> 'payment.succeeded'",
		"attempt-error": "insert into webhook_attempts (event_id, number, at, outcome, error) select id, 9, now(), 'failed', $$ from webhook_events",
		"mail-subject":  "update mails set subject = $$",
		"mail-text":     "update mails set text = $$",
		"mail-to":       "update mails set recipient = $$",
		"mail-error":    "update mails set error = $$, status = 'failed'",
		"job-kind":      "insert into river_job (kind, args, max_attempts, state, queue, scheduled_at) values ($$, '{}', 1, 'scheduled', 'default', now() + interval '1 day')",
		"job-args":      "insert into river_job (kind, args, max_attempts, state, queue, scheduled_at) values ('a', jsonb_build_object('to', $$), 1, 'scheduled', 'default', now() + interval '1 day')",
		"job-error":     "insert into river_job (kind, args, max_attempts, attempt, state, queue, finalized_at, errors) values ('b', '{}', 1, 1, 'discarded', 'default', now(), array[jsonb_build_object('at', now(), 'attempt', 1, 'error', $$, 'trace', '')])",
		"cron-error":    "update cron set last_run_at = now(), last_outcome = 'failed', last_duration = 1, last_error = $$ where name = 'uploads.sweep'",
		"cron-about":    "update cron set description = $$ where name = 'uploads.sweep'",
	}
	all := "begin; " + asTest
	for _, label := range slices.Sorted(maps.Keys(statements)) {
		all += strings.ReplaceAll(statements[label], "$$", "'"+strings.ReplaceAll(s.in(label), "'", "''")+"'") + ";"
	}
	behind(t, s.database, all+"commit")
}
