package stats

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/site"
	"github.com/waypost/waypost/internal/stats/client"
	"github.com/waypost/waypost/internal/text"
)

// Limits of a hit.
const (
	maxLabel     = 1024 // bytes of a path or another label
	maxEventName = 100  // characters
	maxProps     = 16
	maxPropKey   = 100  // characters
	maxPropValue = 1000 // characters
)

// Hit is one visit of a page or one custom event, as a client reports it. Who
// sent it (Address, UserAgent) is hashed and never stored.
type Hit struct {
	// At is when it happened; Collect takes the time of the call instead.
	At        time.Time
	Address   netip.Addr
	UserAgent string
	// URL is absolute.
	URL      string
	Referrer string // an absolute URL; anything else counts as none
	// Name is that of a custom event; empty or "pageview" is a pageview.
	Name  string
	Props Props
	// Country is an ISO 3166-1 alpha-2 code in upper case, empty where unknown.
	Country string
	// DoNotTrack asks to count nothing.
	DoNotTrack bool
}

// Props are the properties of an event. In JSON their values are scalars;
// numbers are kept as spelled.
type Props map[string]string

// UnmarshalJSON refuses null, arrays and objects as values.
func (p *Props) UnmarshalJSON(b []byte) error {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(b, &raw); err != nil {
		return err
	}
	*p = make(Props, len(raw))
	for key, value := range raw {
		switch value[0] {
		case '"':
			var s string
			if err := json.Unmarshal(value, &s); err != nil {
				return err
			}
			(*p)[key] = s
		case 'n', '[', '{':
			return fmt.Errorf("stats: the property %q is no scalar", key)
		default:
			(*p)[key] = string(value)
		}
	}
	return nil
}

// visit is a hit that counts, before its visitor has a number.
type visit struct {
	at              time.Time
	path            string
	name            string // empty for a pageview
	props           []byte // JSON, nil without any
	origin          origin
	from, userAgent string // what the visitor's number is made of
}

// origin is what a session has from its first event.
type origin struct {
	source                                                 string
	utmSource, utmMedium, utmCampaign, utmTerm, utmContent string
	country, device, browser, os                           string
}

// visitOf checks a hit that came from agent: it returns what to count, or why nothing is counted, or
// a fault of kind Invalid that names the fields.
func visitOf(s site.Site, h Hit, agent client.Client) (visit, Drop, error) {
	page, ok := splitURL(h.URL)
	details := map[string]string{}
	if !ok || strings.ContainsRune(h.URL, 0) {
		details["url"] = "An absolute URL such as https://example.com/page."
	}
	checkText(details, h)
	if len(details) > 0 {
		return visit{}, counted, fault.Validation(details)
	}
	switch {
	case !s.Owns(page.host):
		return visit{}, DropForeign, nil
	case h.DoNotTrack:
		return visit{}, DropDoNoTrack, nil
	case agent.Bot:
		return visit{}, DropBot, nil
	}
	v := newVisit(s, h.At, page, h.Referrer, agent)
	v.origin.country = h.Country
	v.from, v.userAgent = canonicalAddress(h.Address), h.UserAgent
	if h.Name != "pageview" {
		v.name = h.Name
	}
	if len(h.Props) > 0 {
		props, err := json.Marshal(h.Props)
		if err != nil {
			return visit{}, counted, fmt.Errorf("stats: props: %w", err)
		}
		v.props = props
	}
	return v, counted, nil
}

func newVisit(s site.Site, at time.Time, page location, referrer string, agent client.Client) visit {
	v := visit{at: at.UTC().Truncate(resolution), path: label(page.path)}
	v.origin = origin{source: source(s, referrer), device: agent.Device, browser: agent.Browser, os: agent.OS}
	if strings.Contains(page.query, "utm_") {
		// A malformed pair costs only itself.
		q, _ := url.ParseQuery(page.query)
		v.origin.utmSource, v.origin.utmMedium = label(q.Get("utm_source")), label(q.Get("utm_medium"))
		v.origin.utmCampaign, v.origin.utmTerm = label(q.Get("utm_campaign")), label(q.Get("utm_term"))
		v.origin.utmContent = label(q.Get("utm_content"))
	}
	return v
}

func checkText(details map[string]string, h Hit) {
	if !text.Within(h.Name, 0, maxEventName) {
		details["name"] = "At most 100 characters, without U+0000."
	}
	if len(h.Props) > maxProps {
		details["props"] = "At most 16 properties."
	}
	for key, value := range h.Props {
		if !text.Within(key, 1, maxPropKey) || !text.Within(value, 0, maxPropValue) {
			details["props"] = "Keys have from 1 to 100 characters and values at most 1,000, without U+0000."
		}
	}
}

// canonicalAddress makes the spellings of one client one.
func canonicalAddress(a netip.Addr) string {
	if !a.IsValid() {
		return ""
	}
	return a.Unmap().WithZone("").String()
}

// location is a URL taken apart.
type location struct {
	scheme, host string // as site.Hostname returns it
	path, query  string // as sent
}

// splitURL takes an absolute URL apart by RFC 3986, appendix B. It is laxer than
// net/url: a path is a label, kept as the browser shows it, be it well-formed or
// not. ok is false when scheme or authority is missing.
func splitURL(raw string) (location, bool) {
	scheme, rest, ok := strings.Cut(raw, "://")
	if !ok || scheme == "" || strings.ContainsAny(scheme, "/?#") {
		return location{}, false
	}
	authority := rest
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		authority = rest[:end]
	}
	path, query := splitTarget(rest[len(authority):])
	if path == "" {
		path = "/"
	}
	host := authority[strings.LastIndexByte(authority, '@')+1:]
	return location{scheme: strings.ToLower(scheme), host: site.Hostname(&url.URL{Host: host}), path: path, query: query}, authority != ""
}

// splitTarget separates a path from its query and drops the fragment.
func splitTarget(target string) (path, query string) {
	target, _, _ = strings.Cut(target, "#")
	path, query, _ = strings.Cut(target, "?")
	return path, query
}

// source is the label of a referrer: its host without "www.", empty for none
// and for the site's own pages.
func source(s site.Site, referrer string) string {
	from, ok := splitURL(referrer)
	if !ok || from.host == "" || s.Owns(from.host) {
		return ""
	}
	switch from.scheme {
	case "http", "https", "android-app":
		return label(strings.TrimPrefix(from.host, "www."))
	default:
		return ""
	}
}

// label makes any bytes into what PostgreSQL's text holds, and cuts them to
// maxLabel at a character.
func label(s string) string {
	s = text.MakeStorable(s, string(utf8.RuneError))
	if len(s) <= maxLabel {
		return s
	}
	end := maxLabel
	for !utf8.RuneStart(s[end]) {
		end--
	}
	// A slice would keep the whole of a long string in memory.
	return strings.Clone(s[:end])
}
