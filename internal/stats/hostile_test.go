package stats

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/stats/calendar"
	"github.com/waypost/waypost/internal/stats/hit"
	"github.com/waypost/waypost/internal/stats/imports"
)

// hostile are texts that were never meant to be labels.
var hostile = []string{
	`<script>alert(1)</script>`, `'; drop table events; --`, "\x00", "a\x00b", "\xff\xfe\xfd", "\xed\xa0\x80", "%00%ff", "../../etc/passwd",
	"\u202e\u2066", "{{7*7}}", "=cmd|' /C calc'!A0", strings.Repeat("☃", 400), strings.Repeat("x", 10<<20), strings.Repeat("\xff", 1<<20), "(other)", " ", "\r\n\t",
}

func TestHostileLabelsNeitherBreakNorBloatAnything(t *testing.T) {
	t.Parallel()
	now := time.Date(2024, 5, 31, 12, 0, 0, 0, time.UTC)
	b := newBench(t, "UTC", now)
	accepted := 0
	for _, text := range hostile {
		for _, change := range []func(*hit.Hit){
			func(h *hit.Hit) { h.URL += text },
			func(h *hit.Hit) { h.URL += "?utm_source=" + text + "&utm_medium=" + text },
			func(h *hit.Hit) { h.Referrer = "https://" + text + "/" },
			func(h *hit.Hit) { h.Referrer = text },
			func(h *hit.Hit) { h.Name = text },
			func(h *hit.Hit) { h.Name, h.Props = "x", hit.Props{text: text} },
			func(h *hit.Hit) { h.UserAgent += text },
			func(h *hit.Hit) { h.URL = text },
		} {
			err := b.ingester.Collect(t.Context(), b.site, aHit(change))
			switch {
			case err == nil:
				accepted++
			case fault.KindOf(err) != fault.Invalid:
				t.Errorf("%.40q: %v", text, err)
			}
		}
	}
	if accepted == 0 {
		t.Fatal("nothing was accepted: the test tests nothing")
	}
	var longest int
	err := b.db.Pool().QueryRow(t.Context(), `
select greatest((select max(octet_length(path)) from events), (select max(octet_length(source)) from sessions), (select max(octet_length(utm_source)) from sessions))`).Scan(&longest)
	if err != nil || longest > hit.MaxLabel {
		t.Errorf("a label of %d bytes is stored, %v", longest, err)
	}
	if size := b.int(`select (sum(pg_column_size(e.*)))::int from events e`); size > 1<<20 {
		t.Errorf("the events take %d bytes", size)
	}
	s, err := NewService(ServiceOptions{DB: b.db, Now: func() time.Time { return now.Add(time.Minute) }})
	if err != nil {
		t.Fatal(err)
	}
	q := Query{SiteID: b.site.ID, Zones: calendar.Always(time.UTC), Limit: 500}
	for _, filters := range []Filters{nil, {FilterPath: {"*"}}} {
		q.Filters = filters
		rows, err := s.Breakdowns(t.Context(), q, ByPage, ByEntry, BySource, ByUTMSource, ByUTMMedium)
		if err != nil {
			t.Fatal(err)
		}
		for d, list := range rows {
			for _, r := range list.Rows {
				if !utf8.ValidString(r.Label) || strings.ContainsRune(r.Label, 0) {
					t.Errorf("%s has the label %q", d, r.Label)
				}
			}
		}
	}
}

func TestAHundredThousandPathsKeepTenThousandNames(t *testing.T) {
	t.Parallel()
	now := time.Date(2024, 5, 31, 12, 0, 0, 0, time.UTC)
	b := newBench(t, "UTC", now)
	const paths = 100_000
	var lines strings.Builder
	for n := range paths {
		fmt.Fprintf(&lines, `{"ts":"2024-05-10T10:00:00Z","url":"https://example.com/%d","ip":"192.0.2.%d"}`+"\n", n, n%250)
	}
	if r, err := b.importer.Import(t.Context(), b.site, strings.NewReader(lines.String()), imports.NDJSON, nil); err != nil || r.Imported != paths {
		t.Fatalf("%+v, %v", r, err)
	}
	s, err := NewService(ServiceOptions{DB: b.db, Now: b.clock.now})
	if err != nil {
		t.Fatal(err)
	}
	q := Query{SiteID: b.site.ID, Zones: calendar.Always(time.UTC), From: "2024-05-10", To: "2024-05-10", Limit: paths}
	for _, filters := range []Filters{nil, {FilterPath: {"/*"}}} {
		q.Filters = filters
		rows, err := s.Breakdowns(t.Context(), q, ByPage)
		if err != nil {
			t.Fatal(err)
		}
		list := rows[ByPage].Rows
		if len(list) != defaultLabelCap+1 {
			t.Fatalf("%d rows with filters %v", len(list), filters)
		}
		if last := list[defaultLabelCap]; last.Label != other || last.Pageviews != paths-defaultLabelCap || last.Visitors != 250 {
			t.Errorf("the last row is %+v", last)
		}
	}
}
