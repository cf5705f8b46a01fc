package mail

import (
	"regexp"
	"strings"
	"sync"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"github.com/waypost/waypost/internal/text"
)

// urlLike matches what mail programs, or their readers, take for an address of a page
// or of a mailbox: a scheme, www., a domain with a top-level domain of two letters or
// more, an IPv4 address, an @. It is compiled when the first mail is written.
var urlLike = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)://|//|\\\\|www\.|(mailto|javascript|data|tel|sms):|@|[\p{L}\p{N}_-]\.(\p{L}{2,}|xn--)|\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}`)
})

// fullStops are other characters that browsers take for the dot of a domain.
var fullStops = strings.NewReplacer("\u3002", ".", "\uff0e", ".", "\uff61", ".", "\u2024", ".")

// Presentable reports whether s, which somebody chose, may stand in a mail of ours:
// one line, without control characters, and nothing that looks like an address. Mails
// from a name that people trust are what phishing needs.
func Presentable(s string) bool {
	if !text.Storable(s) || !text.IsLine(s) || text.Blank(s) || strings.Contains(s, hidden) {
		return false
	}
	// What is invisible or combines with a letter may not part a domain in two.
	plain := strings.Map(func(r rune) rune {
		if unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf) {
			return -1
		}
		return r
	}, norm.NFKD.String(fullStops.Replace(s)))
	return !urlLike().MatchString(fullStops.Replace(plain))
}

// presentableOr is s if it may stand in a mail, else otherwise.
func presentableOr(s, otherwise string) string {
	if Presentable(s) {
		return s
	}
	return otherwise
}

// programs are what a user agent may be called in a mail, by what it contains; the
// first that fits. The text itself is a stranger's, and stays out.
var programs = []struct{ part, name string }{
	{"Edg", "Edge"}, {"OPR/", "Opera"}, {"SamsungBrowser", "Samsung Internet"}, {"Firefox/", "Firefox"}, {"FxiOS", "Firefox"},
	{"CriOS", "Chrome"}, {"Chrome/", "Chrome"}, {"Safari/", "Safari"},
	{"curl/", "curl"}, {"Wget/", "Wget"}, {"PostmanRuntime", "Postman"}, {"insomnia", "Insomnia"},
	{"python-requests", "a Python program"}, {"Python", "a Python program"}, {"Go-http-client", "a Go program"},
	{"okhttp", "an Android app"}, {"Dart/", "a Dart app"}, {"node", "a Node.js program"}, {"axios", "a Node.js program"},
	{"Java/", "a Java program"}, {"Mozilla/", "a web browser"},
}

var systems = []struct{ part, name string }{
	{"iPhone", "iPhone"}, {"iPad", "iPad"}, {"Android", "Android"}, {"CrOS", "ChromeOS"}, {"Windows", "Windows"},
	{"Macintosh", "macOS"}, {"Mac OS X", "macOS"}, {"Linux", "Linux"},
}

// Program names the program of a user agent, with its system: "Firefox on Linux". It
// only has words of its own.
func Program(userAgent string) string {
	name := "an unknown program"
	for _, p := range programs {
		if strings.Contains(userAgent, p.part) {
			name = p.name
			break
		}
	}
	for _, s := range systems {
		if strings.Contains(userAgent, s.part) {
			return name + " on " + s.name
		}
	}
	return name
}
