//go:build browser

package e2e_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/e2e/outside"
	"github.com/waypost/waypost/internal/browsertest"
)

// mostBytes is how large a picture of the README may be.
const mostBytes = 150 << 10

// worked is a dev with deliveries of an hour, in several states.
func worked(t *testing.T) (*process, map[string]string) {
	t.Helper()
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }))
	t.Cleanup(target.Close)
	dir := dbtest.TempDir(t)
	file := filepath.Join(dir, "waypost.yaml")
	handlers := "webhooks:\n  handlers:\n    - {provider: payment, event: invoice.finalized, forward: {url: \"" + target.URL + "/invoices\", secret_env: FORWARD_SECRET}}\n"
	if err := os.WriteFile(file, []byte(handlers), 0o600); err != nil {
		t.Fatal(err)
	}
	env := []string{"WAYPOST_CONFIG=" + file, "FORWARD_SECRET=whsec_YSBrZXkgb2YgdGhlIGZvcndhcmQ=", "TMPDIR=" + dir}
	p := startDev(t, dir, env...)
	dev := devValues(t, dir)
	for _, s := range [][2]string{
		{"payment", "payment.succeeded"}, {"codehost", "push"}, {"payment", "payment.refunded"}, {"payment", "customer.created"},
		{"codehost", "pull_request"}, {"payment", "payment.succeeded"}, {"payment", "invoice.finalized"}, {"payment", "payment.failed"},
	} {
		settings := append([]string{"WAYPOST_DATA_DIR=" + dir, "PAYMENT_WEBHOOK_SECRET=" + dev["PAYMENT_WEBHOOK_SECRET"], "CODEHOST_WEBHOOK_SECRET=" + dev["CODEHOST_WEBHOOK_SECRET"]}, env...)
		if code, _, errOut := command(t, settings, "", "webhook", "send", "--provider", s[0], "--type", s[1], "--url", p.url); code != 0 {
			t.Fatal(errOut)
		}
	}
	outside.Do(t, "POST", p.url+"/webhooks/payment", "{}", "Payment-Signature", "t=1,v1=00")
	p.waitFor(t, "an attempt that failed", func() bool {
		return countNow(t, dev["PSQL_URL"], "select count(*) from webhook_attempts where outcome = 'failed'") > 0
	})
	behind(t, dev["PSQL_URL"], `begin; `+asTest+`
		update webhook_events set created_at = created_at - (n || ' minutes')::interval from (select id, 7 * row_number() over (order by id desc) as n from webhook_events) o where o.id = webhook_events.id;
		update webhook_events set status = 'failed', processed_at = null, handler_error = 'the branch of this pull request is gone' where event_type = 'pull_request';
		commit`)
	return p, dev
}

// The pictures of the README are what dev shows: task screenshots makes them anew.
func TestThePicturesOfTheReadmeCanBeTaken(t *testing.T) {
	p, dev := worked(t)
	tb := browsertest.Open(t, p.url+"/admin", 1280, 800)
	light := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "light"}, {Name: "prefers-reduced-motion", Value: "reduce"}}}
	if _, err := chromedp.Call(tb, emulation.SetEmulatedMedia, light); err != nil {
		t.Fatal(err)
	}
	enter(tb, dev)
	path := func(page, link string) string {
		t.Helper()
		if err := chromedp.Do(tb, chromedp.Navigate(p.url+page)); err != nil {
			t.Fatal(err)
		}
		tb.Await(fmt.Sprintf("new RegExp(%q).test(document.body.innerHTML)", link))
		found := regexp.MustCompile(`"(/admin/` + link + `)`).FindStringSubmatch(browsertest.Evaluate[string](tb, "document.body.innerHTML"))
		if found == nil {
			t.Fatalf("%s has no link like %s", page, link)
		}
		return found[1]
	}
	for _, picture := range []struct{ name, path, ready, then string }{
		// Where this run's files are says nothing to anybody else.
		{"overview", "/admin", `!!document.querySelector("h1")`, `document.querySelector("main").innerHTML = document.querySelector("main").innerHTML.replaceAll(/free at [^ ;<]+/g, "free at .waypost")`},
		{"deliveries", "/admin/webhooks", `!!document.querySelector("tbody tr")`, ""},
		{"delivery", path("/admin/webhooks?event_type=invoice.finalized", "webhooks/[0-9a-f-]{36}"), `document.body.innerText.includes("503")`, ""},
		{"statistics", path("/admin/stats", "stats/[0-9a-f-]{36}"), `!!document.querySelector("figure svg")`, ""},
		{"docs-primary", getMe["primary"], `document.body.innerText.includes("/api/auth/me")`, ""},
		{"docs-alternate", getMe["alternate"], `!!document.querySelector(".opblock.is-open .responses-wrapper")`, "scrollBy(0, -140)"},
	} {
		if err := chromedp.Do(tb, chromedp.Navigate("about:blank"), chromedp.Navigate(p.url+picture.path)); err != nil {
			t.Fatal(err)
		}
		tb.Await(picture.ready)
		tb.Await(`document.fonts.status === "loaded"`)
		time.Sleep(time.Second) // what scrolls into view has come there
		browsertest.Evaluate[any](tb, picture.then+"; null")
		if size := tb.Publish(picture.name); size > mostBytes {
			t.Errorf("%s takes %d bytes", picture.name, size)
		}
	}
	tb.Check()
}
