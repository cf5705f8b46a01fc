package naive

import "sort"

// Row is one label of a breakdown.
type Row struct {
	Label               string
	Visitors, Pageviews int64
}

const other = "(other)"

// tally is what one label of one day has gathered.
type tally struct {
	visitors  map[string]bool
	pageviews int64
}

// days maps a day to its labels.
type days map[string]map[string]*tally

func (d days) add(day, label, visitor string, pageviews int) {
	if label == "" {
		return
	}
	if d[day] == nil {
		d[day] = map[string]*tally{}
	}
	t := d[day][label]
	if t == nil {
		t = &tally{visitors: map[string]bool{}}
		d[day][label] = t
	}
	t.visitors[visitor] = true
	t.pageviews += int64(pageviews)
}

// Breakdown returns w's first limit labels of a dimension: page, entry, exit,
// source, utm_source, ..., country, device, browser or os.
func (s *Site) Breakdown(w Window, dimension string, limit int) []Row {
	d := days{}
	switch dimension {
	case "page":
		for _, h := range s.hitsIn(w) {
			if h.Name == "" {
				d.add(h.day, h.Path, h.Visitor, 1)
			}
		}
	default:
		for _, one := range s.sessionsIn(w) {
			first, views := one.first(), one.pageviews()
			switch {
			case dimension != "entry" && dimension != "exit":
				d.add(first.day, first.Labels[dimension], first.Visitor, len(views))
			case len(views) == 0:
			case dimension == "entry":
				d.add(first.day, views[0].Path, first.Visitor, 1)
			default:
				d.add(first.day, views[len(views)-1].Path, first.Visitor, 1)
			}
		}
	}
	return d.rows(dimension == "page", s.rules.LabelCap, limit)
}

func (d days) rows(pageviewsFirst bool, labelCap, limit int) []Row {
	sum := map[string]Row{}
	for _, labels := range d {
		for _, r := range capped(labels, pageviewsFirst, labelCap) {
			total := sum[r.Label]
			sum[r.Label] = Row{Label: r.Label, Visitors: total.Visitors + r.Visitors, Pageviews: total.Pageviews + r.Pageviews}
		}
	}
	var rows []Row
	for _, r := range sum {
		rows = append(rows, r)
	}
	order(rows, pageviewsFirst)
	return rows[:min(len(rows), limit)]
}

// capped is one day's rows: labels beyond the cap are one, whose visitors are
// counted anew. A label that happens to read (other) is beyond it from the start.
func capped(labels map[string]*tally, pageviewsFirst bool, labelCap int) []Row {
	var rows []Row
	for label, t := range labels {
		rows = append(rows, Row{Label: label, Visitors: int64(len(t.visitors)), Pageviews: t.pageviews})
	}
	order(rows, pageviewsFirst)
	rest := map[string]bool{}
	var out []Row
	var views int64
	for i, r := range rows {
		if i < labelCap && r.Label != other {
			out = append(out, r)
			continue
		}
		for v := range labels[r.Label].visitors {
			rest[v] = true
		}
		views += r.Pageviews
	}
	if len(rest) > 0 {
		out = append(out, Row{Label: other, Visitors: int64(len(rest)), Pageviews: views})
	}
	return out
}

func order(rows []Row, pageviewsFirst bool) {
	sort.Slice(rows, func(i, j int) bool {
		a, b := rows[i], rows[j]
		if (a.Label == other) != (b.Label == other) {
			return b.Label == other
		}
		if pageviewsFirst && a.Pageviews != b.Pageviews {
			return a.Pageviews > b.Pageviews
		}
		if a.Visitors != b.Visitors {
			return a.Visitors > b.Visitors
		}
		if a.Pageviews != b.Pageviews {
			return a.Pageviews > b.Pageviews
		}
		return a.Label < b.Label
	})
}

// EventCount is one custom event's name.
type EventCount struct {
	Name            string
	Count, Visitors int64
}

// Events returns w's first limit names of custom events.
func (s *Site) Events(w Window, limit int) []EventCount {
	byName := map[string][]Hit{}
	for _, h := range s.hitsIn(w) {
		if h.Name != "" {
			byName[h.Name] = append(byName[h.Name], h)
		}
	}
	var out []EventCount
	for name, hits := range byName {
		out = append(out, EventCount{Name: name, Count: int64(len(hits)), Visitors: visitorDays(hits)})
	}
	sort.Slice(out, func(i, j int) bool {
		if out[i].Count != out[j].Count {
			return out[i].Count > out[j].Count
		}
		return out[i].Name < out[j].Name
	})
	return out[:min(len(out), limit)]
}

// PropCount is one property and one value of it.
type PropCount struct {
	Key, Value string
	Count      int64
}

// Props returns the first limit properties of w's events of that name.
func (s *Site) Props(w Window, name string, limit int) []PropCount {
	counts := map[[2]string]int64{}
	for _, h := range s.hitsIn(w) {
		if h.Name == name {
			for key, value := range h.Props {
				counts[[2]string{key, value}]++
			}
		}
	}
	var out []PropCount
	for pair, n := range counts {
		out = append(out, PropCount{Key: pair[0], Value: pair[1], Count: n})
	}
	sort.Slice(out, func(i, j int) bool {
		a, b := out[i], out[j]
		if a.Count != b.Count {
			return a.Count > b.Count
		}
		if a.Key != b.Key {
			return a.Key < b.Key
		}
		return a.Value < b.Value
	})
	return out[:min(len(out), limit)]
}
