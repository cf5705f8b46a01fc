package imports

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
	"github.com/waypost/waypost/internal/stats/drop"
	"github.com/waypost/waypost/internal/stats/eventid"
	"github.com/waypost/waypost/internal/stats/hit"
	"github.com/waypost/waypost/internal/text"
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

// The reasons. SkipInvalid is of NDJSON.
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
	SkipTooLate     Skip = "too_late"     // raw data of its day is gone
)

const (
	MaxLine = 64 << 10 // bytes
	// Every month that has events has a partition, so a file of arbitrary times
	// could make any number of them.
	firstImportYear = 1990
)

// lineReader reads lines of at most maxLine bytes and passes over longer ones
// without keeping them.
type lineReader struct {
	r     *bufio.Reader
	ahead []readLine // read already, by sample
}

// readLine is what next returns.
type readLine struct {
	line    []byte
	size    int
	tooLong bool
	err     error
}

func newLineReader(r io.Reader) *lineReader {
	return &lineReader{r: bufio.NewReaderSize(r, MaxLine+2)}
}

// next returns a line without its line break, valid until the next call, the
// bytes that it took from the file, and whether it was too long, in which case
// the line is nil. The error is io.EOF at the end.
func (l *lineReader) next() (line []byte, size int, tooLong bool, err error) {
	if len(l.ahead) > 0 {
		first := l.ahead[0]
		l.ahead = l.ahead[1:]
		return first.line, first.size, first.tooLong, first.err
	}
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
func (p lineParser) parse(line []byte) (hit.Visit, Skip) {
	if len(bytes.TrimSpace(line)) == 0 {
		return hit.Visit{}, SkipBlank
	}
	v, skip := hit.Visit{}, Skip("")
	if p.format == NDJSON {
		v, skip = p.parseJSON(line)
	} else {
		v, skip = p.parseLog(string(line))
	}
	if skip == "" && (v.At.Year() < firstImportYear || v.At.After(p.now().Add(hit.AheadOfClock))) {
		return hit.Visit{}, SkipTime
	}
	return v, skip
}

func (p lineParser) parseLog(line string) (hit.Visit, Skip) {
	r, err := accesslog.Parse(line, accesslog.Format(p.format))
	if err != nil || p.format == Common && !reads([]byte(line), Common) {
		return hit.Visit{}, SkipMalformed
	}
	switch {
	case r.Method != "GET":
		return hit.Visit{}, SkipNotGet
	case r.Status != 200 && r.Status != 304:
		return hit.Visit{}, SkipStatus
	}
	var page hit.Location
	if strings.HasPrefix(r.Target, "/") {
		page.Path, page.Query = hit.SplitTarget(r.Target)
	} else {
		// The absolute form is what proxies get; of ours it is only for our host.
		absolute, ok := hit.SplitURL(r.Target)
		switch {
		case !ok:
			return hit.Visit{}, SkipMalformed
		case !p.site.Owns(absolute.Host):
			return hit.Visit{}, SkipUnknownHost
		}
		page = absolute
	}
	if accesslog.IsAsset(page.Path) {
		return hit.Visit{}, SkipAsset
	}
	var agent client.Client
	if p.format == Combined {
		if agent = p.clients.Parse(r.UserAgent); agent.Bot {
			return hit.Visit{}, SkipBot
		}
	}
	v := hit.NewVisit(p.site, r.Time, page, r.Referrer, agent)
	v.From, v.UserAgent = canonicalHost(r.Host), r.UserAgent
	if address, err := netip.ParseAddr(r.Host); err == nil {
		v.Origin.Country = p.country(address)
	}
	return v, ""
}

// Event is a line of NDJSON.
type Event struct {
	EventID   string    `json:"event_id"`
	TS        time.Time `json:"ts"`
	URL       string    `json:"url"`
	Referrer  string    `json:"referrer"`
	Name      string    `json:"name"`
	Props     hit.Props `json:"props"`
	IP        string    `json:"ip"`
	UserAgent string    `json:"user_agent"`
}

func (p lineParser) parseJSON(line []byte) (hit.Visit, Skip) {
	if !json.Valid(line) {
		return hit.Visit{}, SkipMalformed
	}
	var e Event
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&e); err != nil || e.TS.IsZero() || !text.Within(e.EventID, 0, eventid.MaxLength) {
		return hit.Visit{}, SkipInvalid
	}
	h := hit.Hit{At: e.TS, UserAgent: e.UserAgent, URL: e.URL, Referrer: e.Referrer, Name: e.Name, Props: e.Props}
	if e.IP != "" {
		var err error
		if h.Address, err = netip.ParseAddr(e.IP); err != nil {
			return hit.Visit{}, SkipInvalid
		}
		h.Country = p.country(h.Address)
	}
	// Servers report what had no browser, too; only a live hit must name one.
	var agent client.Client
	if e.UserAgent != "" {
		agent = p.clients.Parse(e.UserAgent)
	}
	v, dropped, err := hit.Read(p.site, h, agent)
	switch {
	case err != nil:
		return hit.Visit{}, SkipInvalid
	case dropped == drop.Foreign:
		return hit.Visit{}, SkipUnknownHost
	case dropped != drop.None:
		return hit.Visit{}, SkipBot
	}
	v.EventID = e.EventID
	return v, ""
}

func canonicalHost(host string) string {
	if addr, err := netip.ParseAddr(host); err == nil {
		return hit.CanonicalAddress(addr)
	}
	return strings.ToLower(host)
}
