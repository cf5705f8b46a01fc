package precompressed

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
)

var text = strings.Repeat("all work and no play\n", 200)

func bodyOf(c *Content, coding string) func() []byte {
	return func() []byte { return c.variants[coding].whole().body }
}

func both(t *testing.T) map[string]*Content {
	t.Helper()
	header := http.Header{"Content-Type": {"text/plain"}, "Cache-Control": {"no-cache"}}
	fresh := New([]byte(text), header)
	return map[string]*Content{"new": fresh, "stored": Stored(bodyOf(fresh, "br"), bodyOf(fresh, "gzip"), "sum", header)}
}

func ask(c *Content, method string, header http.Header) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "/", nil)
	r.Header = header
	w := httptest.NewRecorder()
	c.ServeHTTP(w, r)
	return w
}

func unpack(t *testing.T, coding string, body []byte) string {
	t.Helper()
	var r io.Reader = bytes.NewReader(body)
	var err error
	switch coding {
	case "br":
		r = brotli.NewReader(r)
	case "gzip":
		r, err = gzip.NewReader(r)
	case "zstd":
		r, err = zstd.NewReader(r)
	}
	if err != nil {
		t.Fatal(err)
	}
	plain, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(plain)
}

func TestTheClientGetsTheCodingItPrefers(t *testing.T) {
	t.Parallel()
	for name, c := range both(t) {
		for accept, want := range map[string]string{
			"":                              "",
			"gzip, deflate, br, zstd":       "br",
			"gzip":                          "gzip",
			"x-gzip":                        "gzip",
			"GZIP;Q=0.5":                    "gzip",
			"br;q=0.2, gzip;q=0.9":          "gzip",
			"br;q=0, *":                     "gzip",
			"br;q=0, gzip;q=0":              "",
			"identity, br;q=0.5":            "",
			"*;q=0":                         "",
			"deflate":                       "",
			"zstd, deflate":                 "zstd",
			"br;q=oops, gzip;q=7, br;q=NaN": "",
		} {
			w := ask(c, http.MethodGet, http.Header{"Accept-Encoding": {accept}})
			got := w.Header().Get("Content-Encoding")
			if got != want {
				t.Errorf("%s: %q gets %q, want %q", name, accept, got, want)
			}
			if w.Code != 200 || unpack(t, got, w.Body.Bytes()) != text {
				t.Errorf("%s: %q: status %d or another text", name, accept, w.Code)
			}
			if w.Header().Get("Vary") != "Accept-Encoding" || w.Header().Get("Content-Type") != "text/plain" {
				t.Errorf("%s: header %v", name, w.Header())
			}
		}
	}
}

func TestVaryNamesTheCodingOnceWhateverStandsThere(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ before, want []string }{
		{nil, []string{"Accept-Encoding"}},
		{[]string{"Accept-Encoding"}, []string{"Accept-Encoding"}},
		{[]string{"Origin, accept-encoding"}, []string{"Origin, accept-encoding"}},
		{[]string{"Origin", "Accept-Encoding"}, []string{"Origin", "Accept-Encoding"}},
		{[]string{"Origin"}, []string{"Origin", "Accept-Encoding"}},
		{[]string{"X-Accept-Encoding"}, []string{"X-Accept-Encoding", "Accept-Encoding"}},
		{[]string{"*"}, []string{"*"}},
	} {
		for name, content := range both(t) {
			for range 2 { // answers share nothing
				w := httptest.NewRecorder()
				for _, v := range c.before {
					w.Header().Add("Vary", v)
				}
				content.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
				if diff := cmp.Diff(c.want, w.Header().Values("Vary")); diff != "" {
					t.Errorf("%s after %v:\n%s", name, c.before, diff)
				}
			}
		}
	}
}

func TestEachCodingHasItsOwnTagAndOnlyThatOneIsFresh(t *testing.T) {
	t.Parallel()
	for name, c := range both(t) {
		tags := map[string]string{}
		for _, coding := range []string{"br", "gzip", "zstd", ""} {
			tag := ask(c, http.MethodGet, http.Header{"Accept-Encoding": {coding}}).Header().Get("ETag")
			if other, taken := tags[tag]; taken || !strings.HasPrefix(tag, `"`) {
				t.Errorf("%s: %q has tag %s like %q", name, coding, tag, other)
			}
			tags[tag] = coding
		}
		for tag, coding := range tags {
			for condition, want := range map[string]int{
				tag: 304, "W/" + tag: 304, `"other", ` + tag: 304, "*": 304, `"other"`: 200, strings.Trim(tag, `"`): 200, "": 200,
			} {
				w := ask(c, http.MethodGet, http.Header{"Accept-Encoding": {coding}, "If-None-Match": {condition}})
				if w.Code != want || (want == 304 && (w.Body.Len() > 0 || w.Header().Get("ETag") != tag)) {
					t.Errorf("%s: If-None-Match %s on %q: %d, %d bytes", name, condition, coding, w.Code, w.Body.Len())
				}
			}
		}
	}
}

func TestHeadAnswersLikeGetWithoutABody(t *testing.T) {
	t.Parallel()
	for name, c := range both(t) {
		header := http.Header{"Accept-Encoding": {"gzip"}}
		get, head := ask(c, http.MethodGet, header), ask(c, http.MethodHead, header)
		if head.Body.Len() > 0 || head.Code != 200 {
			t.Errorf("%s: %d, %d bytes", name, head.Code, head.Body.Len())
		}
		for field := range get.Header() {
			if get.Header().Get(field) != head.Header().Get(field) {
				t.Errorf("%s: %s differs", name, field)
			}
		}
	}
}

func TestSmallContentIsLeftAsItIs(t *testing.T) {
	t.Parallel()
	c := New([]byte("tiny"), http.Header{})
	if got := ask(c, http.MethodGet, http.Header{"Accept-Encoding": {"br"}}); got.Body.String() != "tiny" || got.Header().Get("Content-Encoding") != "" {
		t.Errorf("%v %s", got.Header(), got.Body)
	}
}

func FuzzNegotiate(f *testing.F) {
	f.Add("gzip;q=0.5, br;q=1.0, *;q=0")
	f.Add(";;q=,,=")
	c := New([]byte(text), http.Header{})
	f.Fuzz(func(t *testing.T, accept string) {
		if c.variants[c.negotiate([]string{accept})] == nil {
			t.Fatal("a coding that is not stored was picked")
		}
	})
}
