package main

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"
)

// traffic makes up a site's events in order of visitors, day by day. Labels are
// distributed as they are on real sites: a few pages and sources have most of the
// visits and a long tail has the rest (Zipf's law), most visits have one or two
// pageviews, few carry campaign parameters, some hold custom events.
type traffic struct {
	site     uuid.UUID
	paths    int // all alike, instead of those that are distributed as on real sites; 0 for these
	random   *rand.Rand
	zipf     map[string]*rand.Zipf
	session  int64 // the last id given
	visitor  int64
	sessions [][]any // of the day that is being made, as rows
	events   [][]any
}

// labels are how many a dimension has, and how steep its distribution is.
var labels = map[string]struct {
	count uint64
	steep float64
	text  string
}{
	"path":         {3000, 1.15, "/articles/%d/a-title-of-common-length"},
	"source":       {600, 1.3, "referrer-%d.example"},
	"utm_source":   {15, 1.3, "source-%d"},
	"utm_medium":   {6, 1.2, "medium-%d"},
	"utm_campaign": {80, 1.2, "campaign-%d"},
	"utm_term":     {250, 1.2, "term-%d"},
	"utm_content":  {40, 1.2, "content-%d"},
	"country":      {90, 1.4, ""},
	"device":       {3, 1.2, "device-%d"},
	"browser":      {12, 1.4, "Browser %d"},
	"os":           {9, 1.3, "OS %d"},
	"event":        {8, 1.3, "event-%d"},
	"value":        {20, 1.2, "value-%d"},
}

func newTraffic(site uuid.UUID, seed uint64) *traffic {
	t := &traffic{site: site, random: rand.New(rand.NewPCG(seed, 1)), zipf: make(map[string]*rand.Zipf)}
	for name, l := range labels {
		t.zipf[name] = rand.NewZipf(t.random, l.steep, 3, l.count-1)
	}
	return t
}

func (t *traffic) label(name string) string {
	n := t.zipf[name].Uint64()
	if name == "path" && t.paths > 0 {
		n = t.random.Uint64N(uint64(t.paths))
	}
	if name == "country" {
		return string([]byte{byte('A' + n%26), byte('A' + n/26)})
	}
	return fmt.Sprintf(labels[name].text, n)
}

var (
	eventColumns   = []string{"site_id", "occurred_at", "day", "visitor", "session_id", "path", "name", "props"}
	sessionColumns = []string{
		"site_id", "day", "id", "visitor", "started_at", "last_at", "pageviews", "events", "entry_at", "entry_path", "exit_at", "exit_path",
		"source", "utm_source", "utm_medium", "utm_campaign", "utm_term", "utm_content", "country", "device", "browser", "os",
	}
)

// makeDay makes about n events of day, until its end or until now. Their sessions
// are what ingestion would have made of them: the next visit of a visitor is
// hours later.
func (t *traffic) makeDay(day time.Time, n int, now time.Time) {
	t.sessions, t.events = t.sessions[:0], t.events[:0]
	end := day.AddDate(0, 0, 1)
	if now.Before(end) {
		end = now
	}
	for len(t.events) < n {
		t.visitor++
		// Any 64 bits; a multiplication by an odd number keeps them distinct.
		visitor := t.visitor * -7046029254386353131
		origin := t.origin()
		at := day.Add(time.Duration(t.random.Float64() * 0.7 * float64(end.Sub(day))))
		for at.Before(end) && len(t.events) < n {
			at = t.visit(day, visitor, at, end, origin).Add(3 * time.Hour)
			if t.random.Float64() > 0.12 {
				break
			}
		}
	}
}

// origin is what all of a visitor's sessions share.
func (t *traffic) origin() []any {
	return []any{t.label("country"), t.label("device"), t.label("browser"), t.label("os")}
}

// visit makes one session and returns its last instant.
func (t *traffic) visit(day time.Time, visitor int64, at, end time.Time, origin []any) time.Time {
	t.session++
	start := at
	var pageviews, custom int
	var entry, exit any
	var entryAt, exitAt any
	for {
		var name, props any
		path := t.label("path")
		if pageviews > 0 && t.random.Float64() < 0.12 {
			name, props = t.label("event"), t.props()
			custom++
		} else {
			pageviews++
			exit, exitAt = path, at
			if pageviews == 1 {
				entry, entryAt = path, at
			}
		}
		t.events = append(t.events, []any{t.site, at, day, visitor, t.session, path, name, props})
		next := at.Add(time.Duration(math.Min(8+t.random.ExpFloat64()*50, 1700) * float64(time.Second)))
		if t.random.Float64() > 0.58 || !next.Before(end) {
			break
		}
		at = next
	}
	source := ""
	if t.random.Float64() < 0.55 {
		source = t.label("source")
	}
	row := []any{t.site, day, t.session, visitor, start, at, pageviews, custom, entryAt, entry, exitAt, exit, source}
	for _, name := range []string{"utm_source", "utm_medium", "utm_campaign", "utm_term", "utm_content"} {
		value := ""
		if t.random.Float64() < 0.1 {
			value = t.label(name)
		}
		row = append(row, value)
	}
	t.sessions = append(t.sessions, append(row, origin...))
	return at
}

func (t *traffic) props() json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"plan": %q, "place": %q}`, t.label("value"), t.label("value")))
}
