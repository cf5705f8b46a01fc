package stats

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/netip"
	"strings"
	"time"

	"github.com/waypost/waypost/internal/site"
	"github.com/waypost/waypost/internal/stats/accesslog"
	"github.com/waypost/waypost/internal/stats/client"
)

// Format is how the lines of a file are to be read.
type Format string

// The formats: access logs in NCSA's two formats, and one JSON object a line
// with the members ts, url, referrer, name, props, ip, user_agent and event_id.
const (
	Combined Format = "combined"
	Common   Format = "common"
	NDJSON   Format = "ndjson"
)

// Skip is why a line was not imported.
type Skip string

// The reasons. The last two are of NDJSON.
const (
	SkipMalformed   Skip = "malformed"
	SkipTooLong     Skip = "too_long"     // over 64 KiB
	SkipBlank       Skip = "blank"        // nothing on it
	SkipNotGet      Skip = "not_get"      // a request with another method
	SkipStatus      Skip = "status"       // answered other than 200 or 304
	SkipAsset       Skip = "asset"        // see accesslog.IsAsset
	SkipBot         Skip = "bot"          // an automated client
	SkipTime        Skip = "time"         // before 1990 or in the future
	SkipDuplicate   Skip = "duplicate"    // imported before
	SkipUnknownHost Skip = "unknown_host" // a page of another site
	SkipInvalid     Skip = "invalid"      // a field breaks a rule
)

const (
	maxLine = 64 << 10 // bytes
	// Every month that has events has a partition, so a file of arbitrary times
	// could make any number of them.
	firstImportYear = 1990
	aheadOfClock    = 5 * time.Minute
)

// lineReader reads lines of at most maxLine bytes and passes over longer ones
// without keeping them.
type lineReader struct {
	r *bufio.Reader
}

func newLineReader(r io.Reader) lineReader { return lineReader{bufio.NewReaderSize(r, maxLine+2)} }

// next returns a line without its line break, valid until the next call, the
// bytes that it took from the file, and whether it was too long, in which case
// the line is nil. The error is io.EOF at the end.
func (l lineReader) next() (line []byte, size int, tooLong bool, err error) {
	line, err = l.r.ReadSlice('\n')
	size = len(line)
	if errors.Is(err, bufio.ErrBufferFull) {
		for errors.Is(err, bufio.ErrBufferFull) {
			line, err = l.r.ReadSlice('\n')
			size += len(line)
		}
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return nil, size, true, err
	}
	if errors.Is(err, io.EOF) && size > 0 {
		err = nil
	}
	return bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r")), size, false, err
}

// lineParser makes visits of lines.
type lineParser struct {
	site    site.Site
	format  Format
	clients *client.Parser
	now     func() time.Time
	country func(netip.Addr) string
}

// parse returns the line's visit, or why there is none.
func (p lineParser) parse(line []byte) (visit, Skip) {
	if len(bytes.TrimSpace(line)) == 0 {
		return visit{}, SkipBlank
	}
	v, skip := visit{}, Skip("")
	if p.format == NDJSON {
		v, skip = p.parseJSON(line)
	} else {
		v, skip = p.parseLog(string(line))
	}
	if skip == "" && (v.at.Year() < firstImportYear || v.at.After(p.now().Add(aheadOfClock))) {
		return visit{}, SkipTime
	}
	return v, skip
}

func (p lineParser) parseLog(line string) (visit, Skip) {
	r, err := accesslog.Parse(line, accesslog.Format(p.format))
	if err != nil {
		return visit{}, SkipMalformed
	}
	switch {
	case r.Method != "GET":
		return visit{}, SkipNotGet
	case r.Status != 200 && r.Status != 304:
		return visit{}, SkipStatus
	}
	var page location
	if strings.HasPrefix(r.Target, "/") {
		page.path, page.query = splitTarget(r.Target)
	} else {
		// The absolute form is what proxies get; of ours it is only for our host.
		absolute, ok := splitURL(r.Target)
		switch {
		case !ok:
			return visit{}, SkipMalformed
		case !p.site.Owns(absolute.host):
			return visit{}, SkipUnknownHost
		}
		page = absolute
	}
	if accesslog.IsAsset(page.path) {
		return visit{}, SkipAsset
	}
	var agent client.Client
	if p.format == Combined {
		if agent = p.clients.Parse(r.UserAgent); agent.Bot {
			return visit{}, SkipBot
		}
	}
	v := newVisit(p.site, r.Time, page, r.Referrer, agent)
	v.from, v.userAgent = canonicalHost(r.Host), r.UserAgent
	if address, err := netip.ParseAddr(r.Host); err == nil {
		v.origin.country = p.country(address)
	}
	return v, ""
}

// importedEvent is a line of NDJSON.
type importedEvent struct {
	EventID   string    `json:"event_id"`
	TS        time.Time `json:"ts"`
	URL       string    `json:"url"`
	Referrer  string    `json:"referrer"`
	Name      string    `json:"name"`
	Props     Props     `json:"props"`
	IP        string    `json:"ip"`
	UserAgent string    `json:"user_agent"`
}

func (p lineParser) parseJSON(line []byte) (visit, Skip) {
	if !json.Valid(line) {
		return visit{}, SkipMalformed
	}
	var e importedEvent
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&e); err != nil || e.TS.IsZero() {
		return visit{}, SkipInvalid
	}
	h := Hit{At: e.TS, UserAgent: e.UserAgent, URL: e.URL, Referrer: e.Referrer, Name: e.Name, Props: e.Props}
	if e.IP != "" {
		var err error
		if h.Address, err = netip.ParseAddr(e.IP); err != nil {
			return visit{}, SkipInvalid
		}
		h.Country = p.country(h.Address)
	}
	// Servers report what had no browser, too; only a live hit must name one.
	var agent client.Client
	if e.UserAgent != "" {
		agent = p.clients.Parse(e.UserAgent)
	}
	v, dropped, err := visitOf(p.site, h, agent)
	switch {
	case err != nil:
		return visit{}, SkipInvalid
	case dropped == DropForeign:
		return visit{}, SkipUnknownHost
	case dropped != counted:
		return visit{}, SkipBot
	}
	return v, ""
}

func canonicalHost(host string) string {
	if addr, err := netip.ParseAddr(host); err == nil {
		return canonicalAddress(addr)
	}
	return strings.ToLower(host)
}
