//go:build browser

package e2e_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/e2e/outside"
	"github.com/waypost/waypost/internal/browsertest"
	"github.com/waypost/waypost/internal/mail/smtptest"
)

// grave are the violations that axe-core found which keep somebody from using the page,
// by the rules that are named.
const grave = `axe.run({runOnly: %s}).then(r => { window.found = JSON.stringify(r.violations
	.filter(v => v.impact === "serious" || v.impact === "critical")
	.map(v => ({id: v.id, help: v.help, at: v.nodes.slice(0, 3).map(n => n.html.slice(0, 160) + n.failureSummary)}))) }), true`

// standards are all rules; in the other colours only those about colours can differ.
const standards, colours = `["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]`, `{type: "rule", values: ["color-contrast", "link-in-text-block"]}`

// looker sees pages as a person does.
type looker struct {
	*browsertest.Tab
	t        *testing.T
	url, axe string
}

// look opens a page in a window of that width and sees it in light and dark.
func (l looker) look(path string, width int64) {
	l.t.Helper()
	if err := chromedp.Do(l, chromedp.EmulateViewport(width, 900), chromedp.Navigate(l.url+path)); err != nil {
		l.t.Fatal(err)
	}
	if title := browsertest.Evaluate[string](l.Tab, "document.querySelector('h1')?.innerText ?? ''"); title == "" {
		l.t.Errorf("%s has no heading", path)
	}
	l.fits(path, width)
	browsertest.Evaluate[bool](l.Tab, l.axe+"; true")
	for scheme, rules := range map[string]string{"light": standards, "dark": colours} {
		media := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}
		if _, err := chromedp.Call(l, emulation.SetEmulatedMedia, media); err != nil {
			l.t.Fatal(err)
		}
		browsertest.Evaluate[bool](l.Tab, "delete window.found")
		browsertest.Evaluate[bool](l.Tab, fmt.Sprintf(grave, rules))
		l.Await("!!window.found")
		var found []map[string]any
		if err := json.Unmarshal([]byte(browsertest.Evaluate[string](l.Tab, "window.found")), &found); err != nil {
			l.t.Fatal(err)
		}
		for _, v := range found {
			l.t.Errorf("%s, %s, %d wide: %v", path, scheme, width, v)
		}
		l.Picture(fmt.Sprintf("admin%s-%s-%d", strings.NewReplacer("/", "-", "?", "-").Replace(strings.TrimPrefix(path, "/admin")), scheme, width))
	}
}

func (l looker) fits(path string, width int64) {
	l.t.Helper()
	if overflow := browsertest.Evaluate[int](l.Tab, "document.documentElement.scrollWidth - window.innerWidth"); overflow > 0 {
		l.t.Errorf("%s is %d pixels wider than %d", path, overflow, width)
	}
}

// Every page, as a person sees it: no complaint of the browser, no request to another
// host, nothing wider than the window, and nothing in the way of who uses a keyboard or a
// screen reader. What outsiders stored is everywhere, as in the crawl.
func TestThePagesAreWellAtEveryWidthLightAndDark(t *testing.T) {
	axe, err := os.ReadFile(filepath.Join(npmInstalled(t, filepath.Join("..", "tools", "npm", "axe")), "node_modules", "axe-core", "axe.min.js"))
	if err != nil {
		t.Fatal(err)
	}
	dir, sink := dbtest.TempDir(t), smtptest.Start(t, smtptest.Options{Username: "waypost", Password: "Pl4ntedSMTPPassword"})
	p := startDev(t, dir, append(mailing(sink), "WAYPOST_CONFIG="+withTarget(t))...)
	dev := devValues(t, dir)
	s := &strewn{process: p, database: dev["PSQL_URL"], secret: dev["PAYMENT_WEBHOOK_SECRET"], bearer: []string{"Authorization", "Bearer " + accessToken(t, p.url, dev), "Content-Type", "application/json"}}
	s.fill(t)
	c := crawl(&visitor{t: t, url: p.url, dev: true}, dev["WAYPOST_ADMIN_PASSWORD"], dev["WAYPOST_ADMIN_EMAIL"])
	c.deep = 0
	for _, path := range append(s.unlinked, "/admin") {
		c.visit(path)
	}
	for path, shown := range c.screens {
		if _, elsewhere := seldom[path]; !elsewhere && !c.met[path] && !shown.file {
			t.Errorf("no page like %s is looked at", path)
		}
	}
	l := looker{browsertest.Open(t, p.url+"/admin", 1280, 900), t, p.url, string(axe)}
	for _, width := range []int64{390, 1280} {
		l.look("/", width)
		l.look("/admin/sign-in", width)
	}
	if err := chromedp.Do(l, chromedp.Navigate(p.url+"/admin")); err != nil {
		t.Fatal(err)
	}
	enter(l.Tab, dev)
	for _, path := range c.oneOfEach() {
		for _, width := range []int64{390, 1280} {
			l.look(path, width)
		}
		if wrong := walk(l.Tab); wrong != "" {
			t.Errorf("%s by Tab: %s", path, wrong)
		}
		// A window of 1280 pixels at 400 % (WCAG 1.4.10).
		if err := chromedp.Do(l, chromedp.EmulateViewport(320, 256)); err != nil {
			t.Fatal(err)
		}
		l.fits(path, 320)
	}
	l.Finish()
}

// enter signs dev's ADMIN in on the page of the sign-in.
func enter(tb *browsertest.Tab, dev map[string]string) {
	tb.Await(`document.activeElement.name === "email"`)
	tb.Type(dev["WAYPOST_ADMIN_EMAIL"])
	tb.Await(focus("#password"))
	tb.Type(dev["WAYPOST_ADMIN_PASSWORD"])
	tb.Await(`document.querySelector("form").requestSubmit(), true`)
	awaitHeading(tb, "Overview")
}

func awaitHeading(tb *browsertest.Tab, text string) {
	tb.Await(fmt.Sprintf(`document.querySelector("h1")?.innerText === %q`, text))
}

// A page renews itself, keeps what it shows while the service fails, and leads to the
// sign-in when the session has ended.
func TestAPageThatStaysOpenIsKeptUpToDate(t *testing.T) {
	dir := dbtest.TempDir(t)
	p := startDev(t, dir)
	dev := devValues(t, dir)
	send := func(kind string) {
		if code, _, errOut := command(t, []string{"WAYPOST_DATA_DIR=" + dir, "PAYMENT_WEBHOOK_SECRET=" + dev["PAYMENT_WEBHOOK_SECRET"]}, "", "webhook", "send", "--provider", "payment", "--type", kind, "--url", p.url); code != 0 {
			t.Fatal(errOut)
		}
	}
	send("payment.first")
	tb := browsertest.Open(t, p.url+"/admin", 1280, 900)
	enter(tb, dev)
	if err := chromedp.Do(tb, chromedp.Navigate(p.url+"/admin/webhooks")); err != nil {
		t.Fatal(err)
	}
	tb.Await(`document.body.innerText.includes("payment.first")`)
	browsertest.Evaluate[bool](tb, `window.stayed = true`)
	send("payment.second")
	tb.Await(`window.stayed && document.body.innerText.includes("payment.second")`)

	browsertest.Evaluate[bool](tb, `window.real = fetch, window.failures = 0, window.fetch = async () => { window.failures++; return new Response("<h1>down</h1>", {status: 503}) }, true`)
	tb.Await(`window.failures >= 2`)
	if !browsertest.Evaluate[bool](tb, `document.body.innerText.includes("payment.second")`) {
		t.Error("what the page showed is gone after a failure")
	}
	browsertest.Evaluate[bool](tb, `window.fetch = window.real, true`)
	send("payment.third")
	tb.Await(`window.stayed && document.body.innerText.includes("payment.third")`)
	tb.Finish()

	token := accessToken(t, p.url, dev)
	outside.Do(t, "DELETE", p.url+"/api/auth/sessions", "", "Authorization", "Bearer "+token)
	awaitHeading(tb, "Sign in")
}

// oneOfEach are addresses of the desk: of each kind of page the one that was visited
// last, with as little behind its path as can be.
func (c *crawler) oneOfEach() []string {
	c.t.Helper()
	least := map[string]string{}
	for _, path := range slices.Sorted(maps.Values(c.seen)) {
		u, err := url.Parse(path)
		if err != nil {
			c.t.Fatal(err)
		}
		screen, act := c.kind(u.Path)
		kind := screen + " " + act
		if shown, is := c.screens[screen]; !is || shown.file || !strings.HasPrefix(u.Path, "/admin") {
			continue
		}
		if least[kind] == "" || len(u.Query()) < strings.Count(least[kind], "=") {
			least[kind] = path
		}
	}
	return slices.Sorted(maps.Values(least))
}
