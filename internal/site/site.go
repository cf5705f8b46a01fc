// Package site holds the sites whose traffic is counted, their time zones, and
// the keys that write to and read from them.
package site

import (
	"net/netip"
	"net/url"
	"strings"
	"time"
	_ "time/tzdata" // a zone means the same on a machine without zone files
	"unicode/utf8"

	"github.com/google/uuid"
	"golang.org/x/net/idna"

	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/text"
)

// maxName is the length of a site's or a key's name, in characters.
const maxName = 100

// Site is a site whose traffic is counted.
type Site struct {
	ID     uuid.UUID // version 7
	Name   string
	Domain string // a host name in lower case, without port
	// Zone is where the site's days begin and end at the time of reading.
	Zone *time.Location
	// Zones are the changes of zone, oldest first, the first since ever and the
	// last maybe yet to come; empty for a site that never changed its zone.
	Zones []ZoneChange
	// RetentionMonths is for how many months before the current one its single visits are
	// kept, 0 for ever; nil leaves that to the instance.
	RetentionMonths *int
	// Key is public: it stands in the site's pages and lets them report visits.
	Key                  string
	CreatedAt, UpdatedAt time.Time
}

// Owns reports whether host, as Hostname returns it, is the site's domain or a
// subdomain of it.
func (s Site) Owns(host string) bool {
	return host == s.Domain || strings.HasSuffix(host, "."+s.Domain)
}

// Hostname returns u's host in the form in which a Site keeps its Domain: lower
// case, ASCII (RFC 5890 A-labels), without port and without the root's dot. It is
// empty when u has none.
func Hostname(u *url.URL) string {
	host := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	for _, r := range host {
		if r >= utf8.RuneSelf {
			if ascii, err := idna.Lookup.ToASCII(host); err == nil {
				return ascii
			}
			return host
		}
	}
	return host
}

// parseDomain accepts a host name or an address and nothing around it.
func parseDomain(domain string) (string, bool) {
	domain = strings.TrimSuffix(strings.TrimSpace(domain), ".")
	if addr, err := netip.ParseAddr(domain); err == nil {
		return addr.WithZone("").String(), true
	}
	ascii, err := idna.Lookup.ToASCII(domain)
	return ascii, err == nil && ascii != "" && len(ascii) <= 253
}

// parseZone accepts the names of the IANA time zone database, and the empty name
// for UTC.
func parseZone(name string) (*time.Location, bool) {
	switch {
	case name == "":
		return time.UTC, true
	// What the machine calls so is not in the database; zones that count leap
	// seconds are none of ours.
	case name == "Local", name == "localtime", name == "posixrules", strings.HasPrefix(name, "right/"):
		return nil, false
	}
	zone, err := time.LoadLocation(name)
	return zone, err == nil
}

// maxRetentionMonths is the longest retention that ends.
const maxRetentionMonths = 1200

func parseRetention(months *int) (*int32, bool) {
	if months == nil {
		return nil, true
	}
	if *months < 0 || *months > maxRetentionMonths {
		return nil, false
	}
	return new(int32(*months)), true
}

// newSite is what a caller wants, checked.
type newSite struct {
	name, domain string
	zone         *time.Location
	retention    *int32
}

func parseNew(name, domain, timezone string, retentionMonths *int) (newSite, error) {
	details := map[string]string{}
	n := newSite{name: text.Trim(name)}
	if !validName(n.name) {
		details["name"] = nameRule
	}
	var ok bool
	if n.domain, ok = parseDomain(domain); !ok {
		details["domain"] = domainRule
	}
	if n.zone, ok = parseZone(timezone); !ok {
		details["timezone"] = zoneRule
	}
	if n.retention, ok = parseRetention(retentionMonths); !ok {
		details["retention_months"] = retentionRule
	}
	if len(details) > 0 {
		return newSite{}, fault.Validation(details)
	}
	return n, nil
}

const (
	nameRule      = "From 1 to 100 characters. " + text.LineRule
	domainRule    = "A host name such as example.com, without scheme, port or path."
	retentionRule = "From 1 to 1200 months, 0 for ever, or null for what the instance does."
	zoneRule      = "An IANA time zone such as Europe/Lisbon, or UTC."
)

func validName(name string) bool {
	return text.Within(name, 1, maxName) && text.IsLine(name)
}
