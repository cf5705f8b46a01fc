// Package hit reads what clients, servers and lines of logs report: which pages and events
// count, and what is kept of them.
package hit

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
	"github.com/waypost/waypost/internal/stats/calendar"
	"github.com/waypost/waypost/internal/stats/client"
	"github.com/waypost/waypost/internal/stats/drop"
	"github.com/waypost/waypost/internal/stats/session"
	"github.com/waypost/waypost/internal/text"
)

// Limits of a hit.
const (
	MaxLabel     = 1024 // of a path or another label, in bytes
	MaxPropKey   = 100  // of a property's name, in characters
	maxName      = 100  // characters
	maxProps     = 16
	maxPropValue = 1000 // characters
)

// AheadOfClock is how far in the future a reported hit may be.
const AheadOfClock = 5 * time.Minute

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

// UnmarshalJSON leaves out properties that are null, arrays or objects: what a page says
// of an event is worth more than one property of it.
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
			continue
		default:
			(*p)[key] = string(value)
		}
	}
	return nil
}

// Visit is a hit that counts, before its visitor has a number.
type Visit struct {
	At              time.Time
	Path            string
	Hostname        string // empty where it isn't known
	Name            string // empty for a pageview
	Props           []byte // JSON, nil without any
	Origin          session.Origin
	From, UserAgent string // what the visitor's number is made of
	EventID         string // of an imported line, empty without one
}

// Read checks a hit that came from agent: it returns what to count, or why nothing is, or
// a fault of kind Invalid that names the fields.
func Read(s site.Site, h Hit, agent client.Client) (Visit, drop.Reason, error) {
	page, ok := SplitURL(h.URL)
	details := map[string]string{}
	if !ok || strings.ContainsRune(h.URL, 0) {
		details["url"] = "An absolute URL such as https://example.com/page."
	}
	checkText(details, h)
	if len(details) > 0 {
		return Visit{}, drop.None, fault.Validation(details)
	}
	switch {
	case !s.Owns(page.Host):
		return Visit{}, drop.Foreign, nil
	case h.DoNotTrack:
		return Visit{}, drop.DoNotTrack, nil
	case agent.Bot:
		return Visit{}, drop.Bot, nil
	}
	v := NewVisit(s, h.At, page, h.Referrer, agent)
	v.Origin.Country = h.Country
	v.From, v.UserAgent = CanonicalAddress(h.Address), h.UserAgent
	if h.Name != "pageview" {
		v.Name = h.Name
	}
	if len(h.Props) > 0 {
		props, err := json.Marshal(h.Props)
		if err != nil {
			return Visit{}, drop.None, fmt.Errorf("stats: props: %w", err)
		}
		v.Props = props
	}
	return v, drop.None, nil
}

// NewVisit is the visit of a page of s that agent was sent to by referrer.
func NewVisit(s site.Site, at time.Time, page Location, referrer string, agent client.Client) Visit {
	v := Visit{At: at.UTC().Truncate(calendar.Resolution), Path: Label(page.Path), Hostname: Label(page.Host)}
	v.Origin = session.Origin{Source: source(s, referrer), Device: agent.Device, Browser: agent.Browser, OS: agent.OS}
	if strings.Contains(page.Query, "utm_") {
		// A malformed pair costs only itself.
		q, _ := url.ParseQuery(page.Query)
		v.Origin.UTMSource, v.Origin.UTMMedium = Label(q.Get("utm_source")), Label(q.Get("utm_medium"))
		v.Origin.UTMCampaign, v.Origin.UTMTerm = Label(q.Get("utm_campaign")), Label(q.Get("utm_term"))
		v.Origin.UTMContent = Label(q.Get("utm_content"))
	}
	return v
}

func checkText(details map[string]string, h Hit) {
	if !text.Within(h.Name, 0, maxName) {
		details["name"] = "At most 100 characters, without U+0000."
	}
	if len(h.Props) > maxProps {
		details["props"] = "At most 16 properties."
	}
	for key, value := range h.Props {
		if !text.Within(key, 1, MaxPropKey) || !text.Within(value, 0, maxPropValue) {
			details["props"] = "Keys have from 1 to 100 characters and values at most 1,000, without U+0000."
		}
	}
}

// CanonicalAddress makes the spellings of one client one.
func CanonicalAddress(a netip.Addr) string {
	if !a.IsValid() {
		return ""
	}
	return a.Unmap().WithZone("").String()
}

// Location is a URL taken apart.
type Location struct {
	scheme, Host string // as site.Hostname returns it
	Path, Query  string // as sent
}

// SplitURL takes an absolute URL apart by RFC 3986, appendix B. It is laxer than
// net/url: a path is a label, kept as the browser shows it, be it well-formed or
// not. ok is false when scheme or authority is missing.
func SplitURL(raw string) (Location, bool) {
	scheme, rest, ok := strings.Cut(raw, "://")
	if !ok || scheme == "" || strings.ContainsAny(scheme, "/?#") {
		return Location{}, false
	}
	authority := rest
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		authority = rest[:end]
	}
	path, query := SplitTarget(rest[len(authority):])
	if path == "" {
		path = "/"
	}
	host := authority[strings.LastIndexByte(authority, '@')+1:]
	return Location{scheme: strings.ToLower(scheme), Host: site.Hostname(&url.URL{Host: host}), Path: path, Query: query}, authority != ""
}

// SplitTarget separates a path from its query and drops the fragment.
func SplitTarget(target string) (path, query string) {
	target, _, _ = strings.Cut(target, "#")
	path, query, _ = strings.Cut(target, "?")
	return path, query
}

// source is the label of a referrer: its host without "www.", empty for none
// and for the site's own pages.
func source(s site.Site, referrer string) string {
	from, ok := SplitURL(referrer)
	if !ok || from.Host == "" || s.Owns(from.Host) {
		return ""
	}
	switch from.scheme {
	case "http", "https", "android-app":
		return Label(strings.TrimPrefix(from.Host, "www."))
	default:
		return ""
	}
}

// Label makes any bytes into what PostgreSQL's text holds, and cuts them to
// maxLabel at a character.
func Label(s string) string {
	s = text.MakeStorable(s, string(utf8.RuneError))
	if len(s) <= MaxLabel {
		return s
	}
	end := MaxLabel
	for !utf8.RuneStart(s[end]) {
		end--
	}
	// A slice would keep the whole of a long string in memory.
	return strings.Clone(s[:end])
}
