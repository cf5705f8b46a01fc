package naive

import (
	"math"
	"math/big"
	"time"
)

// Metrics are a window's totals.
type Metrics struct {
	Pageviews, Visitors, Sessions          int64
	BounceRate, AvgDuration, ViewsPerVisit float64
}

// Summary counts w.
func (s *Site) Summary(w Window) Metrics {
	var m Metrics
	hits := s.hitsIn(w)
	for _, h := range hits {
		if h.Name == "" {
			m.Pageviews++
		}
	}
	m.Visitors = visitorDays(hits)
	v := visitsOf(s.sessionsIn(w), m.Pageviews)
	m.Sessions, m.BounceRate, m.AvgDuration, m.ViewsPerVisit = v.Sessions, v.BounceRate, v.AvgDuration, v.ViewsPerVisit
	return m
}

// Visits are what is known of whole sessions.
type Visits struct {
	Sessions                               int64
	BounceRate, AvgDuration, ViewsPerVisit float64
}

func visitsOf(sessions []session, pageviews int64) Visits {
	v := Visits{Sessions: int64(len(sessions))}
	var bounces int64
	var duration time.Duration
	for _, one := range sessions {
		if len(one.hits) == 1 && one.hits[0].Name == "" {
			bounces++
		}
		duration += one.last().At.Sub(one.first().At)
	}
	if v.Sessions > 0 {
		v.BounceRate = rounded(big.NewRat(bounces, v.Sessions), 1000)
		v.AvgDuration = rounded(big.NewRat(int64(duration), v.Sessions*int64(time.Second)), 10)
		v.ViewsPerVisit = rounded(big.NewRat(pageviews, v.Sessions), 100)
	}
	return v
}

// Change is the percentage from before to now, or nil.
func Change(now, before int64) *float64 {
	if before == 0 {
		return nil
	}
	p := rounded(big.NewRat((now-before)*100, before), 10)
	return &p
}

// rounded is r to the nearest 1/steps. The fraction is exact until it is rounded,
// halves away from zero.
func rounded(r *big.Rat, steps int64) float64 {
	scaled, _ := new(big.Rat).Mul(r, new(big.Rat).SetInt64(steps)).Float64()
	if scaled == 0 {
		return 0
	}
	whole := math.Round(scaled)
	if whole == 0 {
		return 0
	}
	return whole / float64(steps)
}

// Realtime counts the distinct visitors of the 300 seconds up to and including now.
func (s *Site) Realtime(now time.Time) int64 {
	var hits []Hit
	for _, h := range s.hits {
		if ago := now.Sub(h.At); ago >= 0 && ago < 300*time.Second {
			hits = append(hits, h)
		}
	}
	return visitorDays(hits)
}

// Bucket is one step of a timeseries.
type Bucket struct {
	Start               time.Time
	Pageviews, Visitors int64
}

// step is small enough to meet every change of the clocks since 1972.
const step = 15 * time.Minute

// Timeseries counts w by granularity: hour, day, week or month. It finds the
// buckets by looking at the site's clocks every quarter of an hour.
func (s *Site) Timeseries(w Window, granularity string) []Bucket {
	label := func(t time.Time) string { return s.bucketLabel(t, granularity) }
	from, to := s.edges(w)
	start := from.Truncate(step)
	for label(start.Add(-step)) == label(start) {
		start = start.Add(-step)
	}
	var buckets []Bucket
	hits := map[string][]Hit{}
	for _, h := range s.hitsIn(w) {
		hits[label(h.At)] = append(hits[label(h.At)], h)
	}
	last := ""
	for t := start; t.Before(to); t = t.Add(step) {
		if label(t) == last {
			continue
		}
		last = label(t)
		b := Bucket{Start: t, Visitors: visitorDays(hits[last])}
		for _, h := range hits[last] {
			if h.Name == "" {
				b.Pageviews++
			}
		}
		buckets = append(buckets, b)
	}
	return buckets
}

// Empty reports whether w ends where it begins, or before.
func (s *Site) Empty(w Window) bool {
	from, to := s.edges(w)
	return !from.Before(to)
}

// edges finds the instants of w by walking: the first quarter hour that w holds,
// and the first after it that w does not.
func (s *Site) edges(w Window) (time.Time, time.Time) {
	var from, to time.Time
	if isDate(w.From) {
		from, _ = time.Parse(date, w.From)
		for from = from.Add(-48 * time.Hour); s.date(from) < w.From; {
			from = from.Add(step)
		}
	} else {
		from = instant(w.From)
	}
	if isDate(w.To) {
		to, _ = time.Parse(date, w.To)
		for to = to.Add(-48 * time.Hour); s.date(to) <= w.To; {
			to = to.Add(step)
		}
	} else {
		to = instant(w.To)
	}
	return from.UTC(), to.UTC()
}

func (s *Site) bucketLabel(t time.Time, granularity string) string {
	day := s.date(t)
	switch granularity {
	case "hour": // with the offset, since an hour occurs twice when clocks go back
		return day + t.In(s.zoneAt(t)).Format(" 15 -0700")
	case "day":
		return day
	case "week":
		monday, _ := time.Parse(date, day)
		for monday.Weekday() != time.Monday {
			monday = monday.AddDate(0, 0, -1)
		}
		return monday.Format(date)
	case "month":
		return day[:len("2006-01")]
	}
	panic("naive: granularity " + granularity)
}
