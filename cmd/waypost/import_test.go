package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waypost/waypost/internal/stats/imports"
)

func TestWithoutATerminalAnImportSpeaksNowAndThen(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 1, 2, 15, 0, 0, 0, time.UTC)
	now := began
	var out strings.Builder
	progress := progressLines(&out, 4000, began, func() time.Time { return now })
	for _, at := range []time.Duration{time.Second, 9 * time.Second, 10 * time.Second, 15 * time.Second, 20 * time.Second} {
		now = began.Add(at)
		progress(imports.Progress{Bytes: int64(at / time.Second * 100), Lines: int(at / time.Second * 10), Imported: 7})
	}
	want := `importing: 100 lines, 7 imported, 10 lines a second, 25%, about 30s left
importing: 200 lines, 7 imported, 10 lines a second, 50%, about 20s left
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}

// The first frames come before anything can be told from the rate.
func TestProgressSaysOnlyWhatIsKnown(t *testing.T) {
	t.Parallel()
	p := imports.Progress{Bytes: 5000, Lines: 500, Imported: 400}
	for took, want := range map[time.Duration]string{
		time.Millisecond: "importing: 500 lines, 400 imported",
		5 * time.Second:  "importing: 500 lines, 400 imported, 100 lines a second, 50%, about 5s left",
	} {
		if got := progressText(p, 10_000, took); got != want {
			t.Errorf("after %v: %s", took, got)
		}
	}
	if got := progressText(p, -1, time.Minute); got != "importing: 500 lines, 400 imported, 8 lines a second" {
		t.Error(got)
	}
	if got := progressText(imports.Progress{Bytes: 120, Lines: 1}, 100, time.Minute); got != "importing: 1 lines, 0 imported, 0 lines a second, 100%, about 0s left" {
		t.Error(got) // a file that grows
	}
}
