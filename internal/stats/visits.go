package stats

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/stats/columns"
	"github.com/waypost/waypost/internal/stats/session"
)

// rawVisit is a session with its events, before its labels have ids.
type rawVisit struct {
	session.Session
	events []rawEvent // in order
}

// rawEvent is an event as it is stored.
type rawEvent struct {
	eventRow
	at    time.Time
	props map[string]string
}

func newRawEvent(row eventRow) (rawEvent, error) {
	e := rawEvent{eventRow: row, at: row.OccurredAt.UTC()}
	if len(row.Props) > 0 {
		if err := json.Unmarshal(row.Props, &e.props); err != nil {
			return rawEvent{}, fmt.Errorf("stats: stored properties: %w", err)
		}
	}
	return e, nil
}

// texts appends all labels of v.
func (v rawVisit) texts(into []labelText) []labelText {
	for _, d := range dimensionTable {
		if d.of == ofSessions {
			into = append(into, labelText{label: d.session(v.Session)})
			continue
		}
		for _, e := range v.events {
			into = append(into, labelText{label: d.event(e.eventRow)})
		}
	}
	for _, e := range v.events {
		for key, value := range e.props {
			into = append(into, labelText{label: key, value: value})
		}
	}
	return slices.DeleteFunc(into, func(t labelText) bool { return t == labelText{} })
}

// resolve gives v's labels the ids that d knows, and instants their distance from the
// start of the day.
func (v rawVisit) resolve(d *dictionary, start time.Time) columns.Session {
	s := columns.Session{At: v.Started.Sub(start).Microseconds(), Micros: v.Last.Sub(v.Started).Microseconds(), Events: make([]columns.Event, len(v.events))}
	for i, e := range v.events {
		s.Events[i].At = e.at.Sub(start).Microseconds()
		for key, value := range e.props {
			s.Events[i].Props = append(s.Events[i].Props, d.ids[labelText{label: key, value: value}])
		}
		slices.Sort(s.Events[i].Props)
	}
	for _, of := range dimensionTable {
		if of.of == ofSessions {
			s.Labels = append(s.Labels, d.ids[labelText{label: of.session(v.Session)}])
			continue
		}
		for i, e := range v.events {
			s.Events[i].Labels = append(s.Events[i].Labels, d.ids[labelText{label: of.event(e.eventRow)}])
		}
	}
	return s
}

// loadVisits reads all that some visitors did on a day.
func loadVisits(ctx context.Context, queries *dbsqlc.Queries, tx pgx.Tx, siteID uuid.UUID, day siteDay, visitors []int64) (map[int64][]rawVisit, error) {
	sessions, err := session.ListOfDay(ctx, tx, siteID, day.Date, visitors)
	if err != nil {
		return nil, err
	}
	ids := make([]int64, len(sessions))
	visits := make(map[int64]*rawVisit, len(sessions))
	for i, row := range sessions {
		ids[i] = row.ID
		visits[row.ID] = &rawVisit{Session: row.Session}
	}
	events, err := queries.ListSessionEvents(ctx, tx, dbsqlc.ListSessionEventsParams{
		SiteID: siteID, Day: day.Date, Sessions: ids, StartsAt: day.Start, EndsAt: day.End,
	})
	if err != nil {
		return nil, err
	}
	for _, row := range events {
		e, err := newRawEvent(row)
		if err != nil {
			return nil, err
		}
		of := visits[row.SessionID]
		of.events = append(of.events, e)
	}
	out := make(map[int64][]rawVisit, len(visitors))
	for _, row := range sessions {
		of := visits[row.ID]
		slices.SortFunc(of.events, func(a, b rawEvent) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.ID, b.ID)) })
		out[row.Visitor.Number] = append(out[row.Visitor.Number], *of)
	}
	return out, nil
}

// visitsPerRead is how many visitors' days are read at once.
const visitsPerRead = 5000

// eachVisits calls f for all visitors of a day, some at a time, in order of their numbers.
func eachVisits(ctx context.Context, queries *dbsqlc.Queries, tx pgx.Tx, siteID uuid.UUID, day siteDay, f func(visitors []int64, visits map[int64][]rawVisit) error) error {
	after := int64(-1 << 63)
	for {
		visitors, err := queries.ListDayVisitors(ctx, tx, dbsqlc.ListDayVisitorsParams{SiteID: siteID, Day: day.Date, After: after, MaxRows: visitsPerRead})
		if err != nil || len(visitors) == 0 {
			return err
		}
		visits, err := loadVisits(ctx, queries, tx, siteID, day, visitors)
		if err != nil {
			return err
		}
		if err := f(visitors, visits); err != nil || len(visitors) < visitsPerRead {
			return err
		}
		after = visitors[len(visitors)-1]
	}
}

func orEmpty(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
