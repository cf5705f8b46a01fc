package httpedge_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/waypost/waypost/internal/httpedge"
)

// clientOf is the address that the service takes for a request's client's.
func clientOf(h http.Handler, peer string, forwarded ...string) string {
	r := httptest.NewRequest("GET", "/who", nil)
	r.RemoteAddr = peer
	for _, line := range forwarded {
		r.Header.Add("X-Forwarded-For", line)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Body.String()
}

var behindProxies = httpedge.Options{TrustedProxies: []netip.Prefix{
	netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8:ffff::/48"),
}}

func TestAForwardedAddressMayHaveAPort(t *testing.T) {
	t.Parallel()
	h := router(t, io.Discard, behindProxies)
	for entry, want := range map[string]string{
		"203.0.113.7":                                  "203.0.113.7",
		"203.0.113.7:51544":                            "203.0.113.7",
		"2001:db8::7":                                  "2001:db8::7",
		"[2001:db8::7]":                                "2001:db8::7",
		"[2001:db8::7]:51544":                          "2001:db8::7",
		"[2001:db8::7%eth0]:51544":                     "2001:db8::7",
		"[::ffff:203.0.113.7]:51544":                   "203.0.113.7",
		"203.0.113.7:51544, 10.9.9.9:80":               "203.0.113.7",
		"[2001:db8::7]:1,[2001:db8:ffff::1]:80":        "2001:db8::7",
		"198.51.100.1, 203.0.113.7:1, ::ffff:10.1.1.1": "203.0.113.7",
	} {
		if got := clientOf(h, "10.0.0.1:80", entry); got != want {
			t.Errorf("%q: %s, want %s", entry, got, want)
		}
	}
}

func TestAnEntryThatCannotBeReadHidesNobodyBehindIt(t *testing.T) {
	t.Parallel()
	h := router(t, io.Discard, behindProxies)
	for _, entry := range []string{
		"nonsense", "unknown", "203.0.113.7:", "203.0.113.7:99999", "[203.0.113.7]", "[2001:db8::7", "2001:db8::7]:80", ":80", "[]:80", "for=203.0.113.7", "203.0.113.7;80",
	} {
		if got := clientOf(h, "10.0.0.1:80", "198.51.100.1, "+entry); got != "10.0.0.1" {
			t.Errorf("%q: %s, want the peer", entry, got)
		}
		if got := clientOf(h, "10.0.0.1:80", entry+", 10.2.2.2"); got != "10.2.2.2" {
			t.Errorf("%q: %s, want the nearest hop that can be read", entry, got)
		}
	}
}

func TestLinesAndEmptyEntriesOfAForwardedHeaderAreOneList(t *testing.T) {
	t.Parallel()
	h := router(t, io.Discard, behindProxies)
	for _, c := range []struct {
		lines []string
		want  string
	}{
		{[]string{"198.51.100.1, 203.0.113.7", "10.1.1.1"}, "203.0.113.7"},
		{[]string{"203.0.113.7", "", " , ,10.1.1.1, ,"}, "203.0.113.7"},
		{[]string{" ,, "}, "10.0.0.1"},
		{[]string{"10.3.3.3, 10.2.2.2"}, "10.3.3.3"}, // all are trusted: the farthest asks
	} {
		if got := clientOf(h, "10.0.0.1:80", c.lines...); got != c.want {
			t.Errorf("%q: %s, want %s", c.lines, got, c.want)
		}
	}
}

// A stranger who sends the header before the operator's own proxy does takes nothing
// away from the warning about that proxy.
func TestAForwardedHeaderThatIsIgnoredIsWarnedOfOnce(t *testing.T) {
	t.Parallel()
	for name, trusted := range map[string][]netip.Prefix{"no proxy is trusted": nil, "another one is": {netip.MustParsePrefix("10.0.0.0/8")}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log bytes.Buffer
			h := router(t, &log, httpedge.Options{TrustedProxies: trusted})
			clientOf(h, "172.16.0.9:80")
			if strings.Contains(log.String(), "WARN") {
				t.Errorf("without a header: %s", &log)
			}
			for i := range 20 {
				clientOf(h, fmt.Sprintf("198.51.100.%d:80", 1+i), "203.0.113.7")
			}
			for range 3 {
				if got := clientOf(h, "172.16.0.9:80", "203.0.113.7"); got != "172.16.0.9" {
					t.Errorf("the client is %s", got)
				}
			}
			if n := strings.Count(log.String(), "WAYPOST_TRUSTED_PROXIES"); n != 2 {
				t.Errorf("%d warnings, want one about strangers and one about the proxy: %s", n, &log)
			}
			if !strings.Contains(log.String(), `"sender":"172.16.0.9"`) {
				t.Errorf("the proxy is not named: %s", &log)
			}
		})
	}
}

func TestAForwardedHeaderThatCannotBeReadIsWarnedOfOnce(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	h := router(t, &log, behindProxies)
	clientOf(h, "10.0.0.1:80", "203.0.113.7:51544")
	if strings.Contains(log.String(), "WARN") {
		t.Errorf("an address with a port: %s", &log)
	}
	for range 3 {
		clientOf(h, "10.0.0.1:80", "\x00unknown"+strings.Repeat("x", 1000))
	}
	if n := strings.Count(log.String(), "can't be read"); n != 1 {
		t.Errorf("%d warnings, want one: %s", n, &log)
	}
	if !strings.Contains(log.String(), "?unknown") || strings.Contains(log.String(), strings.Repeat("x", 100)) {
		t.Errorf("the entry is not shown in short: %s", &log)
	}
}

// Whatever comes in the header, the client is the peer, a proxy, or named in it, and
// never in a form that would hide it from a list of addresses.
func FuzzAForwardedHeaderNamesTheClientOrNobody(f *testing.F) {
	for _, s := range []string{"203.0.113.7", "203.0.113.7:80, 10.1.1.1", "[2001:db8::7]:80", "fe80::1%eth0", "::ffff:10.1.1.1", ",,[", "unknown"} {
		f.Add(s)
	}
	r := router(f, io.Discard, behindProxies)
	f.Fuzz(func(t *testing.T, header string) {
		got, err := netip.ParseAddr(clientOf(r, "10.0.0.1:80", header))
		if err != nil || got.Zone() != "" || got.Is4In6() {
			t.Fatalf("%q: %v, %v", header, got, err)
		}
		if len(header) == 0 && got != netip.MustParseAddr("10.0.0.1") {
			t.Fatalf("no header: %v", got)
		}
	})
}

func TestAProxyThatSaysNothingIsSeenAndStrangersAreNot(t *testing.T) {
	t.Parallel()
	var seen httpedge.Forwarding
	o := behindProxies
	o.Forwarding = &seen
	h := router(t, io.Discard, o)
	clientOf(h, "203.0.113.9:80", "198.51.100.1")
	if seen.Ignored().IsValid() || seen.Unreadable().IsValid() {
		t.Errorf("a stranger is seen: %v %v", seen.Ignored(), seen.Unreadable())
	}
	clientOf(h, "192.168.1.2:80", "198.51.100.1")
	clientOf(h, "10.0.0.1:80", "nonsense")
	clientOf(h, "10.0.0.2:80", "nonsense")
	if seen.Ignored().String() != "192.168.1.2" || seen.Unreadable().String() != "10.0.0.1" {
		t.Errorf("ignored %v, unreadable %v", seen.Ignored(), seen.Unreadable())
	}
}
