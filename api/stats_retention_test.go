package api_test

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/waypost/waypost/internal/stats"
)

// endRawData seals the days of the traffic and lets the single visits of them go.
func (s statistics) endRawData(t *testing.T) {
	t.Helper()
	sealed := time.Date(2024, 7, 1, 0, 0, 0, 0, time.UTC)
	rollups, err := stats.NewRollups(stats.RollupsOptions{DB: s.db, Sites: s.sites, Now: func() time.Time { return sealed }})
	if err != nil {
		t.Fatal(err)
	}
	for _, day := range []string{"2024-05-09", "2024-05-10"} {
		if err := rollups.Seal(t.Context(), stats.SealJob{SiteID: s.site.ID, Day: day}); err != nil {
			t.Fatal(err)
		}
	}
	retention, err := stats.NewRetention(stats.RetentionOptions{DB: s.db, Months: 1, Now: func() time.Time { return sealed.AddDate(0, 0, 2) }})
	if err != nil {
		t.Fatal(err)
	}
	if days, err := retention.Trim(t.Context()); err != nil || days != 2 {
		t.Fatalf("%d days are trimmed, %v", days, err)
	}
}

// Without its visits a day is answered from what was counted, or refused with the earliest
// day that can be asked for; never with a zero.
func TestAQuestionForVisitsThatAreGoneIsRefusedWithTheEarliestDay(t *testing.T) {
	t.Parallel()
	s := newStatistics(t, atTen)
	whole := s.get(t, "/api/stats/summary"+theDay, s.key).Body.String()
	s.endRawData(t)
	if w := s.get(t, "/api/stats/summary"+theDay, s.key); w.Code != http.StatusOK || w.Body.String() != whole {
		t.Errorf("what was counted: %d %s, want %s", w.Code, w.Body, whole)
	}
	for path, query := range map[string]string{
		"summary": theDay + "&filter%5Bdevice%5D=desktop", "timeseries": theDay + "&filter%5Bpath%5D=/", "pages": theDay + "&filter%5Bcountry%5D=%28none%29",
		"referrers": theDay + "&filter%5Bsource%5D=%21x&format=csv", "geo": theDay + "&metrics=sessions&filter%5Bos%5D=*", "tech": "?from=2024-05-09&to=2024-07-01&filter%5Bbrowser%5D=Firefox",
		"events": theDay + "&name=signup&filter%5Bprop%3Aplan%5D=team", "report": theDay + "&questions=summary,pages&filter%5Bdevice%5D=desktop",
	} {
		w := s.get(t, "/api/stats/"+path+query, s.key)
		var body struct {
			Error struct {
				Code, Message string
				Details       map[string]string
			}
		}
		if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil || w.Code != http.StatusUnprocessableEntity || body.Error.Code != "beyond_retention" {
			t.Errorf("%s: %d %s %v", path, w.Code, w.Body, err)
			continue
		}
		if earliest := body.Error.Details["earliest"]; earliest != "2024-05-11" {
			t.Errorf("%s: the earliest day is %q: %s", path, earliest, body.Error.Message)
		}
	}
	if w := s.get(t, "/api/stats/summary?from=2024-05-10T05:00:10Z&to=2024-05-10T05:05:10Z", s.key); w.Code != http.StatusUnprocessableEntity {
		t.Errorf("minutes of the day: %d %s", w.Code, w.Body)
	}
	if w := s.get(t, "/api/stats/summary?from=2024-05-11&to=2024-05-12&filter%5Bdevice%5D=desktop", s.key); w.Code != http.StatusOK {
		t.Errorf("from the earliest day on: %d %s", w.Code, w.Body)
	}
}
