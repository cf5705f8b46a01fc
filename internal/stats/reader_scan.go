package stats

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/waypost/waypost/internal/stats/columns"
	"github.com/waypost/waypost/internal/stats/session"
)

// One scan serves any number of counters: of each day, the blocks are read once, with the
// columns that any of its counters wants, and the filters are matched once.

// dayAsks is what is asked of one day.
type dayAsks struct {
	*rollupDay
	counts []dayCount
	// kind is the same for days of which the same is read.
	kind string
}

// dayCount is what one counter counts of a day.
type dayCount struct {
	counter
	group spanGroup
}

func (d dayAsks) done() {
	for _, c := range d.counts {
		c.counter.done(c.group)
	}
}

// byDay puts what is asked of each day together, in the order of days. A day comes again for
// a counter that counts two of its pieces, each by itself.
func byDay(asks []ask) []dayAsks {
	var days []*dayAsks
	latest := make(map[time.Time]*dayAsks)
	for i, a := range asks {
		for _, g := range a.groups {
			d := latest[g.Date]
			if d == nil || d.counts[len(d.counts)-1].counter == a.counter {
				d = &dayAsks{rollupDay: g.rollupDay}
				days, latest[g.Date] = append(days, d), d
			}
			whole := "part "
			if g.whole() {
				whole = "whole "
			}
			d.counts, d.kind = append(d.counts, dayCount{a.counter, g}), d.kind+whole+strconv.Itoa(i)+" "
		}
	}
	slices.SortStableFunc(days, func(a, b *dayAsks) int { return a.Date.Compare(b.Date) })
	out := make([]dayAsks, len(days))
	for i, d := range days {
		out[i] = *d
	}
	return out
}

// wantedOf is what is read of a day.
func (r *columnReader) wantedOf(d dayAsks) columns.Wanted {
	w := columns.Wanted{Labels: make([]bool, r.schema.Columns())}
	r.match.want(&w)
	for _, c := range d.counts {
		c.want(&w)
		if !c.group.whole() {
			w.Times, w.Labels[columnOf(byEvent)] = true, true
		}
	}
	return w
}

// scan lets counters count what filters leave of their days.
func (r *columnReader) scan(ctx context.Context, asks ...ask) error {
	for _, a := range asks {
		if err := a.begin(ctx, r.labels); err != nil {
			return err
		}
	}
	packed := make(map[string][]dayAsks)
	var kinds []string
	s := scanner{columnReader: r}
	for _, d := range byDay(asks) {
		switch {
		case d.trimmed:
			return session.ErrTrimmed
		case d.state != stateSealed || !d.packed:
			s.wanted = r.wantedOf(d)
			if err := s.scanOpen(ctx, d); err != nil {
				return err
			}
		default:
			if packed[d.kind] == nil {
				kinds = append(kinds, d.kind)
			}
			packed[d.kind] = append(packed[d.kind], d)
		}
	}
	for _, kind := range kinds {
		s.wanted = r.wantedOf(packed[kind][0])
		if err := s.scanPacked(ctx, packed[kind]); err != nil {
			return err
		}
	}
	return nil
}
