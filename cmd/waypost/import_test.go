package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waypost/waypost/internal/stats"
)

func TestWithoutATerminalAnImportSpeaksNowAndThen(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 1, 2, 15, 0, 0, 0, time.UTC)
	now := began
	var out strings.Builder
	progress := progressLines(&out, 4000, began, func() time.Time { return now })
	for _, at := range []time.Duration{time.Second, 9 * time.Second, 10 * time.Second, 15 * time.Second, 20 * time.Second} {
		now = began.Add(at)
		progress(stats.Progress{Bytes: int64(at / time.Second * 100), Lines: int(at / time.Second * 10), Imported: 7})
	}
	want := `importing: 100 lines, 7 imported, 10 lines a second, 25%, about 30s left
importing: 200 lines, 7 imported, 10 lines a second, 50%, about 20s left
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}
