//go:build browser

package e2e_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/internal/browsertest"
)

// grave are the violations that axe-core found which keep somebody from using the page.
const grave = `axe.run({runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]}).then(r => { window.found = JSON.stringify(r.violations
	.filter(v => v.impact === "serious" || v.impact === "critical")
	.map(v => ({id: v.id, help: v.help, at: v.nodes.slice(0, 3).map(n => n.html.slice(0, 160))}))) }), true`

// Every page, as a person sees it: no complaint of the browser, no request to another
// host, nothing wider than the window, and nothing in the way of who uses a keyboard or a
// screen reader.
func TestThePagesAreWellAtEveryWidthLightAndDark(t *testing.T) {
	dir := dbtest.TempDir(t)
	p := startDev(t, dir)
	dev := devValues(t, dir)
	axe, err := os.ReadFile(filepath.Join(npmInstalled(t, filepath.Join("..", "tools", "npm", "axe")), "node_modules", "axe-core", "axe.min.js"))
	if err != nil {
		t.Fatal(err)
	}
	if code, _, errOut := command(t, []string{"WAYPOST_DATA_DIR=" + dir, "PAYMENT_WEBHOOK_SECRET=" + dev["PAYMENT_WEBHOOK_SECRET"]}, "", "webhook", "send", "--provider", "payment", "--type", "payment.succeeded", "--url", p.url); code != 0 {
		t.Fatal(errOut)
	}
	tb := browsertest.Open(t, p.url+"/admin", 1280, 900)
	look := func(path, scheme string, width int64) {
		t.Helper()
		media := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}
		if _, err := chromedp.Call(tb, emulation.SetEmulatedMedia, media); err != nil {
			t.Fatal(err)
		}
		if err := chromedp.Do(tb, chromedp.EmulateViewport(width, 900), chromedp.Navigate(p.url+path)); err != nil {
			t.Fatal(err)
		}
		if title := browsertest.Evaluate[string](tb, "document.querySelector('h1')?.innerText ?? ''"); title == "" {
			t.Errorf("%s has no heading", path)
		}
		if overflow := browsertest.Evaluate[int](tb, "document.documentElement.scrollWidth - window.innerWidth"); overflow > 0 {
			t.Errorf("%s is %d pixels wider than %d", path, overflow, width)
		}
		browsertest.Evaluate[bool](tb, string(axe)+"; true")
		browsertest.Evaluate[bool](tb, grave)
		tb.Await("!!window.found")
		var found []map[string]any
		if err := json.Unmarshal([]byte(browsertest.Evaluate[string](tb, "window.found")), &found); err != nil {
			t.Fatal(err)
		}
		for _, v := range found {
			t.Errorf("%s, %s, %d wide: %v", path, scheme, width, v)
		}
		tb.Picture(fmt.Sprintf("admin%s-%s-%d", strings.NewReplacer("/", "-", "?", "-").Replace(strings.TrimPrefix(path, "/admin")), scheme, width))
	}
	look("/admin/sign-in", "light", 390)
	look("/admin/sign-in", "dark", 1280)
	tb.Await(`document.activeElement.name === "email"`)
	tb.Type(dev["WAYPOST_ADMIN_EMAIL"])
	tb.Await(focus("#password"))
	tb.Type(dev["WAYPOST_ADMIN_PASSWORD"])
	tb.Await(`document.querySelector("form").requestSubmit(), true`)
	p.waitFor(t, "the overview", func() bool {
		// A page that is just going away has nothing to say.
		title, _ := chromedp.Run(tb, chromedp.Evaluate[string](`document.querySelector("h1")?.innerText ?? ""`))
		return title == "Overview"
	})

	list := append([]string{}, pages...)
	for _, from := range []struct{ page, link string }{{"/webhooks", `/webhooks/[0-9a-f-]{36}`}, {"/stats", `/stats/[0-9a-f-]{36}`}, {"/stats", `/sites/[0-9a-f-]{36}`}, {"/jobs", `/jobs/\d+`}, {"/audit", `/audit/\d+`}, {"/users", `/users/\d+`}} {
		if err := chromedp.Do(tb, chromedp.Navigate(p.url+"/admin"+from.page)); err != nil {
			t.Fatal(err)
		}
		path := regexp.MustCompile(`/admin(` + from.link + `)"`).FindStringSubmatch(browsertest.Evaluate[string](tb, "document.documentElement.outerHTML"))
		if path == nil {
			t.Fatalf("no link like %s", from.link)
		}
		list = append(list, path[1])
	}
	for _, path := range list {
		look("/admin"+path, "light", 1280)
		look("/admin"+path, "dark", 390)
	}
	tb.Finish()
}
