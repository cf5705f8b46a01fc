package naive

import "time"

// None is the label of the row of those without one.
const None = "(none)"

// RowVisits is what w's sessions add up to by the label of their row, None without one.
// A label that itself reads so is written with a backslash before it.
func (s *Site) RowVisits(w Window, dimension string) map[string]Visits {
	named := map[string]map[string]bool{}
	for day, labels := range s.tallies(w, dimension) {
		named[day] = map[string]bool{}
		for _, r := range capped(labels, dimension == "page", s.rules.LabelCap) {
			named[day][r.Label] = true
		}
	}
	by := map[string][]session{}
	for _, one := range s.sessionsIn(w) {
		label, _ := one.rowOf(dimension)
		switch {
		case label == "":
			label = None
		case !named[one.first().day][label]:
			label = other
		case label == None:
			label = `\` + None
		}
		by[label] = append(by[label], one)
	}
	out := map[string]Visits{}
	for label, sessions := range by {
		var views int64
		for _, one := range sessions {
			views += int64(len(one.pageviews()))
		}
		out[label] = visitsOf(sessions, views)
	}
	return out
}

// BreakdownWithNone is Breakdown with the row of the sessions without a label, None, and
// all rows.
func (s *Site) BreakdownWithNone(w Window, dimension string) []Row {
	rows := s.Breakdown(w, dimension, 1<<30)
	if dimension == "page" {
		return rows
	}
	none := Row{Label: None}
	visitors := map[string]bool{}
	for _, one := range s.sessionsIn(w) {
		if label, views := one.rowOf(dimension); label == "" {
			visitors[one.first().day+" "+one.first().Visitor] = true
			none.Pageviews += int64(views)
		}
	}
	if none.Visitors = int64(len(visitors)); none.Visitors > 0 {
		rows = append(rows, none)
		order(rows, false)
	}
	return rows
}

// SeriesVisits are those of Timeseries' buckets, of the sessions that start in each.
func (s *Site) SeriesVisits(w Window, granularity string) []Visits {
	buckets := s.Timeseries(w, granularity)
	by := map[string][]session{}
	for _, one := range s.sessionsIn(w) {
		label := s.bucketLabel(one.first().At, granularity)
		by[label] = append(by[label], one)
	}
	out := make([]Visits, len(buckets))
	for i, b := range buckets {
		out[i] = visitsOf(by[s.bucketLabel(b.Start, granularity)], b.Pageviews)
	}
	return out
}

// Period is the window of today, yesterday, 7d, 30d, 90d, 12mo, month, year or all at
// an instant. All but yesterday end with it.
func (s *Site) Period(name string, now time.Time) Window {
	today := s.date(now)
	w := Window{To: now.Truncate(time.Microsecond).Add(time.Microsecond).UTC().Format(time.RFC3339Nano)}
	back := func(days int) string {
		at, _ := time.Parse(date, today)
		return at.AddDate(0, 0, -days).Format(date)
	}
	switch name {
	case "today":
		w.From = today
	case "yesterday":
		for at := now; w.From == ""; at = at.Add(-step) {
			if d := s.date(at); d < today {
				w.From, w.To = d, d
			}
		}
	case "7d":
		w.From = back(6)
	case "30d":
		w.From = back(29)
	case "90d":
		w.From = back(89)
	case "12mo":
		for days := 1; w.From == ""; days++ { // the day after the last of a year ago
			if d := back(days); d[:4] < today[:4] && d[4:] <= today[4:] {
				w.From = back(days - 1)
			}
		}
	case "month":
		w.From = today[:8] + "01"
	case "year":
		w.From = today[:5] + "01-01"
	case "all":
		w.From = today
		if len(s.hits) > 0 && s.hits[0].At.Before(now) {
			w.From = s.hits[0].day
		}
	}
	return w
}
