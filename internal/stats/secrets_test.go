package stats

import (
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/stats/calendar"
	"github.com/waypost/waypost/internal/stats/hit"
	"github.com/waypost/waypost/internal/stats/imports"
	"github.com/waypost/waypost/internal/stats/visitor"
)

func (b *bench) exec(sql string, args ...any) {
	b.t.Helper()
	if _, err := b.db.Single(identity.System("test")).Exec(b.t.Context(), sql, args...); err != nil {
		b.t.Fatal(err)
	}
}

// The ordinary hourly import of a log: its first half while the day has its salt, all of
// it when that is gone.
func TestPartsOfADayJoinWhenTheyAreImportedAtDifferentTimes(t *testing.T) {
	t.Parallel()
	start := time.Date(2024, 5, 31, 12, 0, 0, 0, time.UTC)
	b := newBench(t, "UTC", start)
	var file string
	for i := range 20 {
		file += logLine(start.Add(-2*time.Hour), fmt.Sprint("203.0.113.", i), "/a")
	}
	b.expectImport(file, imports.Combined, 20, nil)
	b.clock.set(start.AddDate(0, 0, 4))
	if n, err := b.ingester.DestroySalts(t.Context()); err != nil || n != 1 {
		t.Fatal(n, err)
	}
	for i := range 20 {
		file += logLine(start.Add(-2*time.Hour+5*time.Minute), fmt.Sprint("203.0.113.", i), "/b")
	}
	b.expectImport(file, imports.Combined, 20, map[imports.Skip]int{imports.SkipDuplicate: 20})
	if n := b.int(`select count(distinct visitor) from events`); n != 20 {
		t.Errorf("%d visitors, want 20", n)
	}
	if n := b.int(`select count(*) from sessions where pageviews = 2`); n != 20 {
		t.Errorf("%d sessions of two pages, want 20", n)
	}
}

// drawnSecrets are the secrets that were drawn from crypto/rand.
type drawnSecrets [][]byte

func (d *drawnSecrets) Read(p []byte) (int, error) {
	n, err := rand.Read(p)
	if n == 32 { // and no nonce
		*d = append(*d, bytes.Clone(p))
	}
	return n, err
}

func TestWhatTellsVisitorsIsStoredSealed(t *testing.T) {
	t.Parallel()
	start := time.Date(2024, 5, 31, 12, 0, 0, 0, time.UTC)
	b := newBench(t, "UTC", start)
	var drawn drawnSecrets
	i, err := NewIngester(IngesterOptions{DB: b.db, Sites: b.sites, Keys: Keys(t), Now: b.clock.now, Random: &drawn})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = i.Close() })
	b.collect(i, nil)
	if b.importer, err = imports.New(imports.Options{DB: b.db, Keys: Keys(t), Now: b.clock.now, Random: &drawn}); err != nil {
		t.Fatal(err)
	}
	b.expectImport(logLine(start.AddDate(0, -3, 0), "203.0.113.7", "/"), imports.Combined, 1, nil)
	if n := b.int(`select count(*) from site_days where salt_box <> ''`) + b.int(`select count(*) from site_import_secrets`); n != 2 || len(drawn) < n {
		t.Fatalf("%d secrets are stored, %d were drawn", n, len(drawn))
	}
	dump := b.dump() + strings.Join(texts(t, b.db, `select x::text from site_import_secrets x`), "")
	for _, secret := range drawn {
		if strings.Contains(dump, hex.EncodeToString(secret)) {
			t.Error("a dump has a secret in clear")
		}
	}
	if n := b.int(`select count(*) from sites where import_secret is not null`) + b.int(`select count(*) from site_days where salt is not null`); n != 0 {
		t.Errorf("%d plain secrets", n)
	}
}

// What a program of before left plain is sealed, and means the same: no visitor is split.
func TestAnUpgradeSealsWhatIsPlainAndSplitsNobody(t *testing.T) {
	t.Parallel()
	start := time.Date(2024, 5, 31, 12, 0, 0, 0, time.UTC)
	b := newBench(t, "UTC", start)
	salt, secret := bytes.Repeat([]byte{1}, 32), bytes.Repeat([]byte{2}, 32)
	day, old := calendar.DateOf(start), calendar.DateOf(start.AddDate(0, -3, 0))
	b.exec(`insert into site_days (site_id, day, starts_at, ends_at, salt) values ($1, $2::date, $2::date, $2::date + interval '1 day', $3)`, b.site.ID, day, salt)
	b.exec(`update sites set import_secret = $1`, secret)
	b.exec(`insert into imported_lines (site_id, line_sha256, ordinal, run) values ($1, 'x', 0, 1)`, b.site.ID)
	b.collect(b.ingester, nil) // before it is sealed
	for range 2 {
		if _, err := b.ingester.SealSecrets(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	b.collect(b.anotherIngester(), nil)
	b.expectImport(logLine(old.Add(time.Hour), "203.0.113.7", "/"), imports.Combined, 1, nil)
	if n := b.int(`select count(*) from sites where import_secret is not null`) + b.int(`select count(*) from site_days where salt is not null`); n != 0 {
		t.Errorf("%d plain secrets are left", n)
	}
	want := map[int64]bool{visitor.Number(salt, "203.0.113.7", firefox): true, visitor.Number(visitor.DerivedSalt(secret, old), "203.0.113.7", firefox): true}
	var got []int64
	if err := b.db.Pool().QueryRow(t.Context(), `select array_agg(distinct visitor) from events`).Scan(&got); err != nil || len(got) != 2 || !want[got[0]] || !want[got[1]] {
		t.Errorf("visitors %v, want %v; %v", got, want, err)
	}
}

func TestAChangedSecretKeyKeepsVisitorsWhileThePreviousIsKnown(t *testing.T) {
	t.Parallel()
	start := time.Date(2024, 5, 31, 12, 0, 0, 0, time.UTC)
	b := newBench(t, "UTC", start)
	b.collect(b.ingester, nil)
	line := func(path string) string { return logLine(start.AddDate(0, -3, 0), "203.0.113.7", path) }
	b.expectImport(line("/"), imports.Combined, 1, nil)
	under := func(current, previous string) (*Ingester, *imports.Importer) {
		i, err := NewIngester(IngesterOptions{DB: b.db, Sites: b.sites, Keys: keysOf(t, current, previous), Now: b.clock.now})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = i.Close() })
		m, err := imports.New(imports.Options{DB: b.db, Keys: keysOf(t, current, previous), Now: b.clock.now})
		if err != nil {
			t.Fatal(err)
		}
		return i, m
	}
	const former, newKey = "a secret key for tests, longer than 32 bytes", "another secret key, longer than 32 bytes too"
	i, _ := under(newKey, former)
	if n, err := i.SealSecrets(t.Context()); err != nil || n != 2 {
		t.Errorf("%d sealed anew, %v", n, err)
	}
	i, m := under(newKey, "")
	b.collect(i, nil)
	if _, err := m.Import(t.Context(), b.site, strings.NewReader(line("/more")), imports.Combined, nil); err != nil {
		t.Fatal(err)
	}
	if n := b.int(`select count(distinct visitor) from events`); n != 2 {
		t.Errorf("%d visitor numbers of two days", n)
	}
	// Without the former key: hits count, as somebody else; an import says what to do.
	i, m = under("a third secret key that is longer than 32 bytes", "")
	b.collect(i, nil)
	if n := b.int(`select count(distinct visitor) from events`); n != 3 {
		t.Errorf("%d visitor numbers, want 3", n)
	}
	if _, err := m.Import(t.Context(), b.site, strings.NewReader(line("/most")), imports.Combined, nil); err == nil || !strings.Contains(err.Error(), "WAYPOST_SECRET_KEY_PREVIOUS") {
		t.Errorf("an import under another key: %v", err)
	}
}

func TestAnImportSecretEndsWhenNobodyUsesIt(t *testing.T) {
	t.Parallel()
	b := newBench(t, "UTC", importNow)
	line := func(path string) string { return logLine(importNow.AddDate(0, -2, 0), "203.0.113.7", path) }
	b.expectImport(line("/1"), imports.Combined, 1, nil)
	b.clock.set(importNow.AddDate(0, 0, 30))
	b.expectImport(line("/2"), imports.Combined, 1, nil)
	destroy := func(after, want int) {
		t.Helper()
		b.clock.set(importNow.AddDate(0, 0, after))
		if n, err := b.ingester.DestroyImportSecrets(t.Context(), 35); err != nil || n != want {
			t.Errorf("after %d days %d destroyed, %v; want %d", after, n, err, want)
		}
	}
	destroy(65, 0)
	destroy(66, 1)
	if n := b.int(`select count(*) from site_import_secrets where box is not null`); n != 0 {
		t.Errorf("%d secrets left", n)
	}
	if _, err := b.importer.Import(t.Context(), b.site, strings.NewReader(line("/3")), imports.Combined, nil); !errors.Is(err, visitor.ErrForgotten) {
		t.Errorf("a line of that month: %v", err)
	}
	if _, err := b.importer.Load(t.Context(), b.site, strings.NewReader(line("/3")), imports.Settings{Format: imports.Combined, NewVisitors: true}); err != nil {
		t.Error(err)
	}
	b.expectImport(line("/4"), imports.Combined, 1, nil)
	if n := b.int(`select count(distinct visitor) from events`); n != 2 {
		t.Errorf("%d visitors, want 2", n)
	}
}

func TestAnEventIDCountsOnceWhereverItComesFrom(t *testing.T) {
	t.Parallel()
	b := newBench(t, "UTC", importNow)
	line := func(id, ts, path string) string {
		return fmt.Sprintf(`{"event_id":%q,"ts":%q,"url":"https://example.com/%s","ip":"203.0.113.7","user_agent":%q}`+"\n", id, ts, path, firefox)
	}
	// In one file, whatever else the lines say.
	file := line("a", "2024-05-30T10:00:00Z", "a") + line("a", "2024-05-30T10:00:00Z", "a") + line("a", "2024-05-29T11:00:00Z", "b") + line("b", "2024-05-30T10:00:00Z", "a")
	b.expectImport(file, imports.NDJSON, 2, map[imports.Skip]int{imports.SkipDuplicate: 2})
	b.expectImport(file+line("b", "2024-05-01T10:00:00Z", "other"), imports.NDJSON, 0, map[imports.Skip]int{imports.SkipDuplicate: 5})
	// In a batch before or after.
	report := b.report(reported("b", func(h *hit.Hit) { h.At = importNow }), reported("c", func(h *hit.Hit) { h.At = importNow }))
	if diff := cmp.Diff([]int{1, 1}, []int{report.Accepted, report.Duplicate}); diff != "" {
		t.Error(diff)
	}
	b.expectImport(line("c", "2024-05-30T10:00:00Z", "c")+line("d", "2024-05-30T10:00:00Z", "c"), imports.NDJSON, 1, map[imports.Skip]int{imports.SkipDuplicate: 1})
	// Lines without an id are told apart by their text, as ever.
	bare := strings.Replace(line("", "2024-05-30T10:00:00Z", "e"), `"event_id":"",`, "", 1)
	b.expectImport(bare+bare, imports.NDJSON, 2, nil)
	if n := b.int(`select count(*) from events`); n != 6 {
		t.Errorf("%d events, want 6", n)
	}
}

func TestAFileOfAnotherFormatIsRefusedBeforeAnythingIsStored(t *testing.T) {
	t.Parallel()
	b := newBench(t, "UTC", importNow)
	combined := logLine(importNow.Add(-time.Hour), "203.0.113.7", "/a")
	common := combined[:strings.Index(combined, ` "-"`)] + "\n"
	if strings.Count(combined, `"`) != 6 {
		t.Fatalf("no combined line: %s", combined)
	}
	event := `{"ts":"2024-05-01T10:00:00Z","url":"https://example.com/n"}` + "\n"
	for name, c := range map[string]struct {
		file   string
		format imports.Format
		says   string
	}{
		"combined as common":  {strings.Repeat(combined, 200), imports.Common, "--format combined"},
		"combined as NDJSON":  {"\n\n" + combined, imports.NDJSON, "--format combined"},
		"common as combined":  {common, imports.Combined, "--format common"},
		"NDJSON as common":    {event, imports.Common, "--format ndjson"},
		"common as NDJSON":    {common, imports.NDJSON, "--format common"},
		"something else":      {"name,domain\nx,y\n", imports.Combined, "first 2 lines"},
		"compressed by zstd":  {"\x28\xb5\x2f\xfd\x04\x00", imports.Combined, "zstd"},
		"compressed by bzip2": {"BZh91AY&SY", imports.Common, "bzip2"},
		"too late a line":     {strings.Repeat("x\n", 100) + combined, imports.Combined, "first 100 lines"},
	} {
		report, err := b.importer.Import(t.Context(), b.site, strings.NewReader(c.file), c.format, nil)
		if fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), c.says) || report.Lines != 0 {
			t.Errorf("%s: %+v, %v", name, report, err)
		}
	}
	if n := b.int(`select count(*) from imports`) + b.int(`select count(*) from site_days`); n != 0 {
		t.Errorf("%d rows", n)
	}
	b.expectImport(strings.Repeat("x\n", 99)+combined, imports.Combined, 1, map[imports.Skip]int{imports.SkipMalformed: 99})
	b.expectImport("", imports.NDJSON, 0, nil)
}

func TestACompressedFileIsReadAsItIs(t *testing.T) {
	t.Parallel()
	b := newBench(t, "UTC", importNow)
	var packed bytes.Buffer
	const lines = 3000
	file := bigLog(lines)
	for _, part := range []string{file[:len(file)/2], file[len(file)/2:]} { // as rotated logs put together
		w := gzip.NewWriter(&packed)
		_, _ = w.Write([]byte(part))
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	size := int64(packed.Len())
	last := imports.Progress{}
	report, err := b.importer.Import(t.Context(), b.site, bytes.NewReader(packed.Bytes()), imports.Combined, func(p imports.Progress) { last = p })
	if err != nil || report.Imported != lines || last.Bytes != size {
		t.Errorf("%+v, last %+v of %d bytes, %v", report, last, size, err)
	}
	b.expectImport(file, imports.Combined, 0, map[imports.Skip]int{imports.SkipDuplicate: lines})
	short := packed.Bytes()[:packed.Len()-5]
	if _, err := b.importer.Import(t.Context(), b.site, bytes.NewReader(short), imports.Combined, nil); err == nil {
		t.Error("a file that is cut off is read without an error")
	}
}
