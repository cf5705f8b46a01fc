package api_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestTheScriptIsSmallAndCacheable(t *testing.T) {
	t.Parallel()
	s := newSiteAPI(t, limits{})
	get := func(coding, tag string) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/stats.js", nil)
		r.Header.Set("Accept-Encoding", coding)
		r.Header.Set("If-None-Match", tag)
		w := httptest.NewRecorder()
		s.handler.ServeHTTP(w, r)
		return w
	}
	const limit = 1536
	for _, coding := range []string{"br", "gzip", "zstd"} {
		w := get(coding, "")
		if w.Code != 200 || w.Body.Len() > limit || w.Header().Get("Content-Encoding") != coding {
			t.Errorf("%s: %d, %d bytes, %v", coding, w.Code, w.Body.Len(), w.Header())
		}
		if again := get(coding, w.Header().Get("ETag")); again.Code != 304 || again.Body.Len() != 0 {
			t.Errorf("%s again: %d", coding, again.Code)
		}
	}
	w := get("identity", "")
	if ct := w.Header().Get("Content-Type"); ct != "text/javascript; charset=utf-8" || w.Header().Get("Access-Control-Allow-Origin") != "*" {
		t.Errorf("%v", w.Header())
	}
	for _, forbidden := range []string{"cookie =", "setItem", "waypost_ignore =", "sessionStorage", "indexedDB"} {
		if strings.Contains(w.Body.String(), forbidden) {
			t.Errorf("the script uses %s", forbidden)
		}
	}
}
