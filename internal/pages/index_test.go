package pages_test

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/waypost/waypost/internal/pages"
)

func TestOnlyWhoAsksForAPageGetsTheIndexAsOne(t *testing.T) {
	t.Parallel()
	for accept, want := range map[string]bool{
		"": false, "*/*": false, "application/json": false, "text/*": false, "text/html;q=0": false, "text/html;q=x": false, "text/html;;;": false,
		"application/json, text/html;q=0.9": false, "application/*": false,
		"text/html": true, "TEXT/HTML": true, "text/html, application/json": true, "application/json;q=0.5,text/html;q=0.6": true,
		"text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8": true,
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		if accept != "" {
			r.Header.Set("Accept", accept)
		}
		if got := pages.WantsPage(r); got != want {
			t.Errorf("Accept %q: a page: %v", accept, got)
		}
	}
}

func TestTheIndexLoadsNothing(t *testing.T) {
	t.Parallel()
	p, err := pages.New()
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	p.Index(pages.IndexOptions{Version: "1.2.3", Docs: "/reference"}).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
	body := w.Body.String()
	if outside := regexp.MustCompile(`(?i)https?://|<script|<link|\bsrc=|\son\w+=|style=|href="/`).FindString(body); outside != "" {
		t.Errorf("%q in %s", outside, body)
	}
	for _, want := range []string{`href="reference?ui=alternate"`, `href="admin"`, `href="readyz"`, "1.2.3"} {
		if !strings.Contains(body, want) {
			t.Errorf("no %s in %s", want, body)
		}
	}
}
