package stats

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/stats/imports"
)

// logLine is a combined line of a visit that counts.
func logLine(at time.Time, address, path string) string {
	return fmt.Sprintf("%s - - [%s] \"GET %s HTTP/1.1\" 200 123 \"-\" \"%s\"\n", address, at.Format("02/Jan/2006:15:04:05 -0700"), path, firefox)
}

func (b *bench) importText(text string, format imports.Format) imports.Report {
	b.t.Helper()
	report, err := b.importer.Import(b.t.Context(), b.site, strings.NewReader(text), format, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	if report.Bytes != int64(len(text)) {
		b.t.Errorf("%d bytes reported of %d", report.Bytes, len(text))
	}
	sum := report.Imported
	for _, n := range report.Skipped {
		sum += n
	}
	if sum != report.Lines {
		b.t.Errorf("the report does not add up: %+v", report)
	}
	return report
}

func (b *bench) expectImport(text string, format imports.Format, imported int, skipped map[imports.Skip]int) {
	b.t.Helper()
	report := b.importText(text, format)
	if skipped == nil {
		skipped = map[imports.Skip]int{}
	}
	if diff := cmp.Diff(skipped, report.Skipped); diff != "" || report.Imported != imported {
		b.t.Errorf("imported %d lines, want %d; skipped:\n%s", report.Imported, imported, diff)
	}
}

// How package imports works on a file.
const linesTogether, lanesTogether = 4000, 2

var importNow = time.Date(2024, 5, 31, 12, 0, 0, 0, time.UTC)

func TestLinesAreSkippedByReason(t *testing.T) {
	t.Parallel()
	b := newBench(t, "UTC", importNow)
	day := importNow.AddDate(0, 0, -20)
	good := logLine(day, "203.0.113.7", "/a?utm_source=x")
	with := func(old, new string) string { return strings.Replace(good, old, new, 1) }
	b.expectImport(strings.Join([]string{
		good, with("/a?utm_source=x", "/b"), with("200 123", "304 -"),
		with("GET /a", "GET https://www.example.com/abs"),
		with("203.0.113.7", "visitor.example"),
		"\n", "\r\n", "not a log line\n", with("GET", "POST"), with("GET", "get"), with("200 123", "404 123"), with("200 123", "206 123"),
		with("/a?", "/a.CSS?"), with("/a?", "/favicon.ico?"), with(firefox, "Googlebot/2.1"), with(firefox, "-"),
		with("GET /a", "GET https://example.net/proxied"), with("GET /a", "GET a"), with("2024", "1989"), with("2024", "2124"),
		"203.0.113.7 - - " + strings.Repeat("x", imports.MaxLine) + "\n",
		strings.TrimSuffix(with("/a?", "/last?"), "\n"), // no line break at the end of the file
	}, ""), imports.Combined, 6, map[imports.Skip]int{
		imports.SkipBlank: 2, imports.SkipMalformed: 2, imports.SkipNotGet: 2, imports.SkipStatus: 2, imports.SkipAsset: 2, imports.SkipBot: 2, imports.SkipUnknownHost: 1, imports.SkipTime: 2, imports.SkipTooLong: 1,
	})
	common := good[:strings.Index(good, ` "-"`)] + "\n"
	b.expectImport(common+strings.Replace(common, "GET", "HEAD", 1), imports.Common, 1, map[imports.Skip]int{imports.SkipNotGet: 1})
	b.expectImport(strings.Join([]string{
		`{"ts":"2024-05-01T10:00:00Z","url":"https://example.com/n","ip":"203.0.113.9","user_agent":"` + firefox + `"}`,
		`{"ts":"2024-05-01T12:00:00+02:00","url":"https://example.com/n","name":"signup","props":{"n":1.50,"ok":true,"s":"x"},"event_id":"1"}`,
		`{"ts":"2024-05-01T10:00:00Z","url":"https://example.com/n","props":{"a":[1]}}`,
		`{"ts":"2024-05-01T10:00:00Z","url":"https://example.com/n","ip":"nowhere"}`,
		`{"ts":"yesterday","url":"https://example.com/n"}`, `{"url":"https://example.com/n"}`, `{"ts":"2024-05-01T10:00:00Z"}`,
		`{"ts":"2024-05-01T10:00:00Z","url":"https://example.com/n","colour":"red"}`, `[]`,
		`{"ts":"2024-05-01T10:00:00Z","url":"https://example.net/n"}`,
		`{"ts":"2024-05-01T10:00:00Z","url":"https://example.com/n","user_agent":"curl/8"}`,
		`{"ts":"2024-05-31T12:06:00Z","url":"https://example.com/n"}`,
		`{"ts":`,
	}, "\n"), imports.NDJSON, 3, map[imports.Skip]int{imports.SkipInvalid: 6, imports.SkipUnknownHost: 1, imports.SkipBot: 1, imports.SkipTime: 1, imports.SkipMalformed: 1})
	if n := b.int(`select count(*) from events where props = '{"n": "1.50", "ok": "true", "s": "x"}' and name = 'signup'`); n != 1 {
		t.Error("the properties were changed on the way")
	}
	if _, err := b.importer.Import(t.Context(), b.site, strings.NewReader(""), "w3c", nil); fault.KindOf(err) != fault.Invalid {
		t.Errorf("an unknown format: %v", err)
	}
}

func TestAFileCountsOnceHoweverOftenItIsImported(t *testing.T) {
	t.Parallel()
	b := newBench(t, "UTC", importNow)
	day := importNow.AddDate(0, 0, -20)
	var file string
	for i := range 50 {
		line := logLine(day.Add(time.Duration(i)*time.Minute), "203.0.113.7", fmt.Sprint("/", i%7))
		file += strings.Repeat(line, 1+i%3) // equal lines are visits of their own
	}
	lines := strings.Count(file, "\n")
	b.expectImport(file, imports.Combined, lines, nil)
	before := b.dump()
	b.expectImport(file, imports.Combined, 0, map[imports.Skip]int{imports.SkipDuplicate: lines})
	if diff := cmp.Diff(eventRows(before), eventRows(b.dump())); diff != "" {
		t.Errorf("the second import changed something:\n%s", diff)
	}
	more := logLine(day, "203.0.113.7", "/0") + logLine(day.Add(time.Hour), "203.0.113.8", "/new")
	b.expectImport(file+more, imports.Combined, 2, map[imports.Skip]int{imports.SkipDuplicate: lines})
	// The lines of another file that are equal to the first's are the same lines.
	b.expectImport(more, imports.Combined, 0, map[imports.Skip]int{imports.SkipDuplicate: 2})
	if n := b.int(`select count(*) from events`); n != lines+2 {
		t.Errorf("%d events, want %d", n, lines+2)
	}
}

// eventRows leaves out what a repeated import may touch: which run met a line.
func eventRows(dump string) string {
	var kept []string
	for line := range strings.Lines(dump) {
		if !strings.Contains(line, `\x`) {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "")
}

// Against a multiset: whatever prefixes of files were imported before.
func TestAnImportAddsWhatALineExceedsWhatIsThere(t *testing.T) {
	t.Parallel()
	b := newBench(t, "UTC", importNow)
	rapid.Check(t, func(rt *rapid.T) {
		s, err := b.sites.Create(t.Context(), "Example", "example.com", "UTC")
		if err != nil {
			rt.Fatal(err)
		}
		most := map[int]int{}
		total := 0
		for range rapid.IntRange(1, 4).Draw(rt, "files") {
			lines := rapid.SliceOfN(rapid.IntRange(0, 3), 0, 12).Draw(rt, "lines")
			var file strings.Builder
			count := map[int]int{}
			added := 0
			for _, n := range lines {
				file.WriteString(logLine(importNow.AddDate(0, 0, -20), "203.0.113.7", fmt.Sprint("/", n)))
				if count[n]++; count[n] > most[n] {
					most[n] = count[n]
					added++
				}
			}
			total += added
			report, err := b.importer.Import(t.Context(), s, strings.NewReader(file.String()), imports.Combined, nil)
			if err != nil || report.Imported != added {
				rt.Fatalf("imported %d, %v; want %d", report.Imported, err, added)
			}
		}
		var stored int
		if err := b.db.Pool().QueryRow(t.Context(), `select count(*) from events where site_id = $1`, s.ID).Scan(&stored); err != nil || stored != total {
			rt.Fatalf("%d events, %v; want %d", stored, err, total)
		}
	})
}

// bigLog is a generated log of several transactions.
func bigLog(lines int) string {
	var file strings.Builder
	day := importNow.AddDate(0, 0, -20).Truncate(24 * time.Hour)
	for i := range lines {
		file.WriteString(logLine(day.Add(time.Duration(i)*2*time.Second), fmt.Sprintf("203.0.113.%d", i%50), fmt.Sprint("/", i%11)))
	}
	return file.String()
}

func TestABrokenOffImportIsCompletedByTheNext(t *testing.T) {
	t.Parallel()
	b := newBench(t, "UTC", importNow)
	const lines = 2*lanesTogether*linesTogether + 500
	file := bigLog(lines)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	report, err := b.importer.Import(ctx, b.site, strings.NewReader(file), imports.Combined, func(p imports.Progress) { stop() })
	if !errors.Is(err, context.Canceled) || report.Imported == 0 || report.Imported == lines {
		t.Fatalf("broken off: %+v, %v", report, err)
	}
	// Another lane may have committed without having been told, and its COMMIT may
	// still be on its way: the connections are gone, their transactions not at once.
	b.awaitTransactions()
	done := b.int(`select count(*) from events`)
	if done < report.Imported || done > lines {
		t.Errorf("%d events, reported %d", done, report.Imported)
	}
	b.expectImport(file, imports.Combined, lines-done, map[imports.Skip]int{imports.SkipDuplicate: done})
	if n := b.int(`select count(*) from events`); n != lines {
		t.Errorf("%d events of %d lines", n, lines)
	}
	// 50 visitors with a visit every 100 s have one session each on each day.
	if n, visitors := b.int(`select count(*) from sessions`), b.int(`select count(*) from session_heads`); n != 50 || visitors != 50 {
		t.Errorf("%d sessions of %d visitors", n, visitors)
	}
}

// awaitTransactions waits for the end of the transactions on the database, those
// of abandoned connections too.
func (b *bench) awaitTransactions() {
	b.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for b.int(`select count(*) from pg_stat_activity where datname = current_database() and xact_start is not null and pid <> pg_backend_pid()`) > 0 {
		select {
		case <-tick.C:
		case <-b.t.Context().Done():
			b.t.Fatal("a transaction does not end")
		}
	}
}

// failingReader ends with an error in the middle of a line.
type failingReader struct{ io.Reader }

func (r failingReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if errors.Is(err, io.EOF) {
		err = os.ErrClosed
	}
	return n, err
}

func TestWhatWasReadBeforeAFailureIsKept(t *testing.T) {
	t.Parallel()
	b := newBench(t, "UTC", importNow)
	file := bigLog(10)
	report, err := b.importer.Import(t.Context(), b.site, failingReader{strings.NewReader(file[:len(file)-20])}, imports.Combined, nil)
	if !errors.Is(err, os.ErrClosed) || report.Imported != 9 {
		t.Errorf("%+v, %v", report, err)
	}
	b.expectImport(file, imports.Combined, 1, map[imports.Skip]int{imports.SkipDuplicate: 9})
}

func TestANewerImportTakesOver(t *testing.T) {
	t.Parallel()
	b := newBench(t, "UTC", importNow)
	const lines = 3 * linesTogether
	file := bigLog(lines)
	var newer imports.Report
	older, err := b.importer.Import(t.Context(), b.site, strings.NewReader(file), imports.Combined, func(imports.Progress) {
		if newer.Lines == 0 {
			newer = b.importText(file, imports.Combined)
		}
	})
	if !errors.Is(err, imports.ErrSuperseded) {
		t.Fatalf("the older import: %+v, %v", older, err)
	}
	if older.Imported+newer.Imported != lines || b.int(`select count(*) from events`) != lines {
		t.Errorf("imported %d and %d of %d lines", older.Imported, newer.Imported, lines)
	}
}

func TestAnImportThatWaitsForInputStopsWhenTold(t *testing.T) {
	t.Parallel()
	b := newBench(t, "UTC", importNow)
	in, out := io.Pipe()
	defer out.Close()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := b.importer.Import(ctx, b.site, in, imports.Combined, nil)
		ended <- err
	}()
	if _, err := io.WriteString(out, bigLog(1)); err != nil {
		t.Fatal(err)
	}
	stop()
	select {
	case err := <-ended:
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("still waiting")
	}
}
