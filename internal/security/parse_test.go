package security_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/security"
)

const (
	legacy = "application/csp-report"
	modern = "application/reports+json"
)

// report is a body of report-uri.
func report(directive, blocked, document string) string {
	return `{"csp-report":{"document-uri":"` + document + `","violated-directive":"` + directive + `","blocked-uri":"` + blocked + `"}}`
}

func TestAReportIsReadInBothFormsWithoutWhatMayBeSecret(t *testing.T) {
	t.Parallel()
	const page = "https://a.example/account/reset-password?token=wp_secret#wp_secret"
	for name, c := range map[string]struct {
		mediaType, body string
		want            []security.Violation
	}{
		"legacy": {legacy, report("script-src-elem", "https://user:wp_secret@Evil.example:8443/wp_secret?q=wp_secret#wp_secret", page),
			[]security.Violation{{"script-src-elem", "https://evil.example:8443", "/account/reset-password"}}},
		"legacy with a whole directive": {legacy, report("script-src 'nonce-wp_secret'", "inline", page), []security.Violation{{"script-src", "inline", "/account/reset-password"}}},
		"modern": {modern + "; charset=utf-8", `[{"type":"csp-violation","url":"` + page + `","body":{"blockedURL":"data:text/html,wp_secret","effectiveDirective":"img-src"}},
			{"type":"deprecation","url":"` + page + `","body":{"id":"wp_secret"}}]`, []security.Violation{{"img-src", "data", "/account/reset-password"}}},
		"an extension's script":     {legacy, report("script-src", "moz-extension://0b6e/wp_secret.js", page), []security.Violation{{"script-src", security.ByExtension, "/account/reset-password"}}},
		"an extension's name alone": {legacy, report("script-src", "chrome-extension", page), []security.Violation{{"script-src", security.ByExtension, "/account/reset-password"}}},
		"no such directive":         {legacy, report("wp_secret", "inline", page), nil},
		"no address":                {legacy, report("img-src", "wp_secret wp_secret", "wp_secret:wp_secret"), []security.Violation{{"img-src", "others", ""}}},
		"a host that is too long":   {legacy, report("img-src", "https://"+strings.Repeat("a", 100)+".example", page), []security.Violation{{"img-src", "others", "/account/reset-password"}}},
	} {
		got, err := security.ParseReports(c.mediaType, []byte(c.body))
		if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
			t.Errorf("%s: %v\n%s", name, err, diff)
		}
	}
}

// Abuse case 56.
func TestWhatIsNoReportIsRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		mediaType, body string
		want            error
	}{
		"another media type": {"application/json", `{"csp-report":{}}`, security.ErrReportType},
		"none":               {"", `{"csp-report":{}}`, security.ErrReportType},
		"no JSON":            {legacy, `{"csp-report":`, security.ErrReport},
		"empty":              {modern, ``, security.ErrReport},
		"spaces":             {modern, `   `, security.ErrReport},
		"null":               {modern, `null`, security.ErrReport},
		"another object":     {legacy, `{"report":{}}`, security.ErrReport},
		"NaN":                {modern, `[NaN]`, security.ErrReport},
		"deep":               {modern, strings.Repeat("[", 4000) + strings.Repeat("]", 4000), security.ErrReport},
		"no UTF-8":           {legacy, "{\"csp-report\":{\"blocked-uri\":\"\xff\"}}", security.ErrReport},
		"a body of a number": {modern, `[{"type":"csp-violation","body":7}]`, security.ErrReport},
		"no body":            {modern, `[{"type":"csp-violation"}]`, security.ErrReport},
	} {
		if _, err := security.ParseReports(c.mediaType, []byte(c.body)); err != c.want {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// FuzzParseReports holds that whatever is sent, what would be stored is short, is text
// that the database takes, and has neither path nor query.
func FuzzParseReports(f *testing.F) {
	f.Add(legacy, []byte(report("script-src", "https://evil.example/x?y#z", "https://a.example/admin?token=x")))
	f.Add(modern, []byte(`[{"type":"csp-violation","url":"https://a.example/","body":{"blockedURL":"blob:https://x.example/1","effectiveDirective":"img-src"}}]`))
	f.Add(modern, []byte(`[{"type":"csp-violation","body":{"blockedURL":"\u0000\ud800","effectiveDirective":"IMG-SRC","sourceFile":"safari-web-extension://x"}}]`))
	f.Add(legacy, []byte(`null`))
	f.Fuzz(func(t *testing.T, mediaType string, body []byte) {
		list, err := security.ParseReports(mediaType, body)
		if err != nil && fault.KindOf(err) != fault.Malformed && fault.KindOf(err) != fault.UnsupportedMedia {
			t.Fatal(err)
		}
		if len(list) > 20 {
			t.Errorf("%d violations", len(list))
		}
		for _, v := range list {
			scheme, rest, _ := strings.Cut(v.Blocked, "://")
			if v.Blocked == "" || len(v.Blocked) > 100 || len(v.Directive) > 50 || strings.ContainsAny(scheme+rest, "/?#@\x00\n") {
				t.Errorf("%q", v)
			}
		}
	})
}
