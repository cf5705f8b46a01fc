package jobs

import (
	"bytes"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbtest"
)

func TestRiverSaysOnceAMinuteThatTheDatabaseIsAway(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	h := calm{slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}), new(repeated)}
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for second := range 130 {
		at := began.Add(time.Duration(second) * time.Second)
		for _, r := range []slog.Record{
			slog.NewRecord(at, slog.LevelError, "producer: Error fetching jobs", 0),
			slog.NewRecord(at, slog.LevelInfo, "producer: Run loop", 0),
		} {
			if err := h.WithAttrs(nil).Handle(t.Context(), r); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 2 {
		_ = h.Handle(t.Context(), slog.NewRecord(began, slog.LevelError, "jobexecutor.JobExecutor: Unhandled job kind", 0))
	}
	var errors []string
	for line := range strings.Lines(out.String()) {
		if strings.Contains(line, "ERROR") {
			errors = append(errors, strings.TrimSpace(line))
		}
	}
	want := []string{
		`level=ERROR msg="producer: Error fetching jobs"`,
		`level=ERROR msg="producer: Error fetching jobs" not_said_again=59`,
		`level=ERROR msg="producer: Error fetching jobs" not_said_again=59`,
		`level=ERROR msg="jobexecutor.JobExecutor: Unhandled job kind"`,
		`level=ERROR msg="jobexecutor.JobExecutor: Unhandled job kind"`,
	}
	if diff := cmp.Diff(want, errors); diff != "" {
		t.Error(diff)
	}
	if n := strings.Count(out.String(), "Run loop"); n != 130 {
		t.Errorf("%d of 130 lines that are no errors", n)
	}
}

// lockedBuffer is a log that is written to by others.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// River's own way takes seven seconds, whatever the context.
func TestAStopWithoutADatabaseDoesNotWaitForRiversLeadership(t *testing.T) {
	t.Parallel()
	proxy := dbtest.NewProxy(t, dbtest.NewURL(t).App)
	d, err := db.Open(t.Context(), db.Options{URL: proxy.URL(), MaxConns: 8})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	var log lockedBuffer
	r, err := New(Options{DB: d, Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	leads := regexp.MustCompile(`Gained leadership`)
	for limit := time.Now().Add(time.Minute); !leads.MatchString(log.String()); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatal("it does not lead:", log.String())
		}
	}
	proxy.Close()
	stopRunner(t, r, time.Minute)
	if !strings.Contains(log.String(), "is not given up") {
		t.Errorf("it waited:\n%s", log.String())
	}
}
