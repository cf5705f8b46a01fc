package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

func TestAnADMINReadsOfASiteWhatItsKeyReads(t *testing.T) {
	t.Parallel()
	s := newSiteAPI(t, limits{})
	made, other := s.create(t, `{"name":"Blog","domain":"example.com"}`), s.create(t, `{"name":"Other","domain":"example.org"}`)
	_, key := s.key(t, made.ID, `{"name":"reader"}`)
	for _, path := range []string{"/", "/pricing", "/pricing"} {
		if a := s.send(t, "POST", "/api/collect", fmt.Sprintf(`{"site_key":%q,"url":"https://example.com%s"}`, made.SiteKey, path)); a.status != http.StatusAccepted {
			t.Fatalf("%d %s", a.status, a.text)
		}
	}
	counted := 0
	for _, question := range []string{
		"summary", "summary?compare=true", "timeseries?granularity=hour", "realtime", "pages", "pages?limit=1&filter[path]=/pricing", "referrers", "geo", "tech", "events?name=signup",
		"pages?limit=0", "pages?from=", "pages?filter[nothing]=x", "timeseries?granularity=year", "summary?from=2026-02-02&to=2026-01-01",
	} {
		byKey := s.send(t, "GET", "/api/stats/"+question, "", "X-Analytics-API-Key", key)
		byAdmin := s.send(t, "GET", "/api/admin/sites/"+made.ID+"/stats/"+question, "")
		if byAdmin.status != byKey.status || byAdmin.text != byKey.text || byAdmin.header.Get("ETag") != byKey.header.Get("ETag") ||
			byAdmin.header.Get("Cache-Control") != byKey.header.Get("Cache-Control") {
			t.Errorf("%s: %d %s %v, by key %d %s %v", question, byAdmin.status, byAdmin.text, byAdmin.header, byKey.status, byKey.text, byKey.header)
		}
		if strings.Contains(byAdmin.text, "/pricing") {
			counted++
		}
		if a := s.send(t, "GET", "/api/admin/sites/"+other.ID+"/stats/"+question, ""); strings.Contains(a.text, "/pricing") {
			t.Errorf("%s: of another site: %s", question, a.text)
		}
	}
	if counted < 2 {
		t.Error("the visits don't show")
	}
	summary := "/api/admin/sites/" + made.ID + "/stats/summary"
	tag := s.send(t, "GET", summary, "").header.Get("ETag")
	if a := s.send(t, "GET", summary, "", "If-None-Match", tag); a.status != http.StatusNotModified || tag == "" {
		t.Errorf("with the tag %q: %d", tag, a.status)
	}
	s.send(t, "GET", summary, "", "Authorization", "Bearer EDITOR").wants(t, "an EDITOR", 403, "forbidden")
	s.send(t, "GET", summary, "", "Authorization", "", "X-Analytics-API-Key", key).wants(t, "a key", 401, "unauthenticated")
	s.send(t, "GET", "/api/admin/sites/nothing/stats/summary", "").wants(t, "no id", 404, "not_found")
	s.send(t, "DELETE", "/api/admin/sites/"+made.ID, "")
	s.send(t, "GET", summary, "").wants(t, "after the site's end", 404, "not_found")
}
