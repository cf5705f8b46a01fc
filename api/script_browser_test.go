//go:build browser

package api_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
)

// shopPage is a page of the counted site: it tracks before the script has come,
// and navigates without loading anything.
const shopPage = `<!doctype html><title>Shop</title><body><p>Shop
<script>
window.waypost = window.waypost || {track: function () { (this.q = this.q || []).push(arguments) }}
waypost.track("early", {from: "queue"})
</script>
<script defer src="http://counter.example:%[1]s/stats.js" data-site-key="%[2]s"></script>
<script>
function act() {
  history.pushState({}, "", "/basket#top")
  history.replaceState({}, "", "/basket#bottom")
  history.pushState({}, "", "/checkout?step=1")
  waypost.track("purchase", {plan: "team", seats: 3, trial: false})
}
</script>`

func port(t *testing.T, s *httptest.Server) string {
	t.Helper()
	_, p, err := net.SplitHostPort(s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// The script runs in a real browser, on a page of another origin, and the right
// rows arrive; nothing is left in the browser.
func TestTheScriptReportsWhatHappensOnAPage(t *testing.T) {
	s := newSiteAPI(t, limits{})
	made := s.create(t, `{"name":"Shop","domain":"shop.example"}`)
	counter := httptest.NewServer(s.handler)
	t.Cleanup(counter.Close)
	shop := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprintf(w, shopPage, port(t, counter), made.SiteKey)
	}))
	t.Cleanup(shop.Close)
	search := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, `<!doctype html><title>Search</title><a id="hit" href="http://shop.example:`+port(t, shop)+`/?utm_source=news&utm_medium=mail&utm_campaign=spring">Shop</a>`)
	}))
	t.Cleanup(search.Close)

	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox,
		chromedp.Flag("host-resolver-rules", "MAP * 127.0.0.1"), chromedp.UserAgent(browser))
	allocator, stop := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(stop)
	ctx, closeTab := chromedp.NewContext(allocator)
	t.Cleanup(closeTab)
	if err := chromedp.Do(ctx,
		chromedp.Navigate("http://www.search.example:"+port(t, search)+"/"),
		chromedp.Click("#hit"),
	); err != nil {
		t.Fatal(err)
	}
	s.awaitEvents(t, 2) // the page's own view, and the event from before the script
	if _, err := chromedp.Run(ctx, chromedp.Evaluate[bool](`act(), true`)); err != nil {
		t.Fatal(err)
	}
	s.awaitEvents(t, 5)
	if _, err := chromedp.Run(ctx, chromedp.Evaluate[bool](`history.back(), true`)); err != nil {
		t.Fatal(err)
	}
	s.awaitEvents(t, 6)

	type row struct{ Name, Path, Props string }
	rows, err := s.db.Pool().Query(t.Context(), `select coalesce(name, ''), path, coalesce(props::text, '') from events`)
	if err != nil {
		t.Fatal(err)
	}
	got, err := pgx.CollectRows(rows, pgx.RowToStructByPos[row])
	if err != nil {
		t.Fatal(err)
	}
	count := map[row]int{}
	for _, r := range got {
		count[r]++
	}
	want := map[row]int{
		{"", "/", ""}: 1, {"", "/basket", ""}: 2, {"", "/checkout", ""}: 1, // the way back counts too
		{"early", "/", `{"from": "queue"}`}:                                           1,
		{"purchase", "/checkout", `{"plan": "team", "seats": "3", "trial": "false"}`}: 1,
	}
	if diff := cmp.Diff(want, count); diff != "" {
		t.Error(diff)
	}
	var sessions int
	err = s.db.Pool().QueryRow(t.Context(), `select count(*) from sessions where source = 'search.example' and utm_source = 'news'
		and utm_medium = 'mail' and utm_campaign = 'spring' and browser = 'Firefox' and entry_path = '/'`).Scan(&sessions)
	if err != nil || sessions != 1 {
		t.Errorf("%d sessions with the referrer and the campaign, %v", sessions, err)
	}
	kept, err := chromedp.Run(ctx, chromedp.Evaluate[string](`document.cookie + localStorage.length + sessionStorage.length`))
	if err != nil || kept != "00" {
		t.Errorf("the browser keeps %q, %v", kept, err)
	}
}

func (s siteAPI) awaitEvents(t *testing.T, n int) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(30 * time.Second); ; {
		var stored int
		if err := s.db.Pool().QueryRow(t.Context(), `select count(*) from events`).Scan(&stored); err != nil {
			t.Fatal(err)
		}
		if stored >= n {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d events, waiting for %d", stored, n)
		}
		<-tick.C
	}
}
