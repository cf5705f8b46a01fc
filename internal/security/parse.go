package security

import (
	"bytes"
	"encoding/json"
	"mime"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/waypost/waypost/internal/fault"
)

// MaxReportBody bounds the body of a report in bytes.
const MaxReportBody = 8 << 10

const (
	// maxPerBody is how many reports of one body are looked at.
	maxPerBody = 20
	// maxBlocked is the length of the longest origin that is kept.
	maxBlocked = 100
)

// Refusals of reports.
var (
	ErrReportType = fault.New(fault.UnsupportedMedia, fault.CodeUnsupportedMedia, "Send application/csp-report or application/reports+json.")
	ErrReport     = fault.New(fault.Malformed, "invalid_report", "This is no report of a Content Security Policy.")
)

// What stands in the place of an origin.
const (
	// ByExtension is for what an extension of the browser put into the page: it says
	// nothing of the page.
	ByExtension = "browser extension"
	// others is for what is too much to tell apart.
	others = "others"
)

// Violation is what is kept of a report: which rule kept which origin, or kind of thing,
// from which page.
type Violation struct {
	Directive string
	Blocked   string
	// Path is the page's path as the browser gave it. It may hold ids, and is not to be
	// stored: the route that it leads to is.
	Path string
}

// directives are those that a policy has (CSP Level 3, section 6).
var directives = []string{
	"base-uri", "child-src", "connect-src", "default-src", "fenced-frame-src", "font-src", "form-action", "frame-ancestors", "frame-src", "img-src", "manifest-src",
	"media-src", "object-src", "prefetch-src", "require-trusted-types-for", "sandbox", "script-src", "script-src-attr", "script-src-elem",
	"style-src", "style-src-attr", "style-src-elem", "trusted-types", "webrtc", "worker-src",
}

// words are what a report has in the place of an origin (CSP Level 3, section 5.2).
var words = []string{"inline", "eval", "wasm-eval", "self", "data", "blob", "filesystem", "about", "trusted-types-policy", "trusted-types-sink"}

// legacyReport is the body of report-uri (CSP Level 2, section 4.4).
type legacyReport struct {
	Report *struct {
		Document  string `json:"document-uri"`
		Blocked   string `json:"blocked-uri"`
		Effective string `json:"effective-directive"`
		Violated  string `json:"violated-directive"`
		Source    string `json:"source-file"`
	} `json:"csp-report"`
}

// report is one of the list that report-to sends (Reporting API, section 2.1).
type report struct {
	Type string          `json:"type"`
	URL  string          `json:"url"`
	Body json.RawMessage `json:"body"`
}

type reportBody struct {
	Document  string `json:"documentURL"`
	Blocked   string `json:"blockedURL"`
	Effective string `json:"effectiveDirective"`
	Source    string `json:"sourceFile"`
}

// ParseReports reads the body of a request that reports violations, in either form, and
// leaves out what is no violation of a policy. It returns ErrReportType or ErrReport.
func ParseReports(contentType string, body []byte) ([]Violation, error) {
	mediaType, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		return nil, ErrReportType
	}
	if !utf8.Valid(body) {
		return nil, ErrReport
	}
	switch mediaType {
	case "application/csp-report":
		return parseLegacy(body)
	case "application/reports+json":
		return parseList(body)
	}
	return nil, ErrReportType
}

func parseLegacy(body []byte) ([]Violation, error) {
	var r legacyReport
	if json.Unmarshal(body, &r) != nil || r.Report == nil {
		return nil, ErrReport
	}
	directive := r.Report.Effective
	if directive == "" {
		directive, _, _ = strings.Cut(r.Report.Violated, " ")
	}
	return violations(nil, directive, r.Report.Blocked, r.Report.Source, r.Report.Document), nil
}

func parseList(body []byte) ([]Violation, error) {
	var list []report
	if json.Unmarshal(body, &list) != nil || bytes.TrimSpace(body)[0] != '[' {
		return nil, ErrReport
	}
	var found []Violation
	for _, r := range list[:min(len(list), maxPerBody)] {
		if r.Type != "csp-violation" {
			continue
		}
		var b reportBody
		if json.Unmarshal(r.Body, &b) != nil {
			return nil, ErrReport
		}
		document := b.Document
		if document == "" {
			document = r.URL
		}
		found = violations(found, b.Effective, b.Blocked, b.Source, document)
	}
	return found, nil
}

// violations adds one to list, unless there is no such directive.
func violations(list []Violation, directive, blocked, source, document string) []Violation {
	directive = strings.ToLower(directive)
	if !slices.Contains(directives, directive) {
		return list
	}
	v := Violation{Directive: directive, Blocked: originOf(blocked), Path: pathOf(document)}
	if fromExtension(blocked) || fromExtension(source) {
		v.Blocked = ByExtension
	}
	return append(list, v)
}

// fromExtension reports whether an address is of a browser's extension.
func fromExtension(address string) bool {
	scheme, _, _ := strings.Cut(strings.ToLower(address), ":")
	return strings.HasSuffix(scheme, "-extension") || strings.HasSuffix(scheme, "-web-extension") || scheme == "webkit-masked-url"
}

// originOf is what is kept of a blocked address: a word, a scheme, or an origin, never a
// path, a query, a fragment or a user's name, in which there may be secrets.
func originOf(blocked string) string {
	blocked = strings.ToLower(strings.TrimSpace(blocked))
	if blocked == "" {
		return "inline" // as older browsers say it
	}
	if slices.Contains(words, blocked) {
		return blocked
	}
	u, err := url.Parse(blocked)
	if err != nil || u.Scheme == "" {
		return others
	}
	origin := u.Scheme
	if u.Host != "" {
		origin = u.Scheme + "://" + u.Host
	}
	if len(origin) > maxBlocked || strings.ContainsFunc(origin, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return others
	}
	return origin
}

func pathOf(document string) string {
	u, err := url.Parse(document)
	if err != nil || u.Opaque != "" {
		return ""
	}
	return u.Path
}
