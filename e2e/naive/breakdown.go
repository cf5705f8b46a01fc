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
	return s.tallies(w, dimension).rows(dimension == "page", s.rules.LabelCap, limit)
}

func (s *Site) tallies(w Window, dimension string) days {
	d := days{}
	if dimension == "page" {
		for _, h := range s.hitsIn(w) {
			if h.Name == "" {
				d.add(h.day, h.Path, h.Visitor, 1)
			}
		}
		return d
	}
	for _, one := range s.sessionsIn(w) {
		label, views := one.rowOf(dimension)
		d.add(one.first().day, label, one.first().Visitor, views)
	}
	return d
}

// rowOf is the label of a session in a dimension, empty for none, and what it adds to the row's
// pageviews.
func (one session) rowOf(dimension string) (string, int) {
	views := one.pageviews()
	switch {
	case dimension != "entry" && dimension != "exit":
		return one.first().Labels[dimension], len(views)
	case len(views) == 0:
		return "", 1
	case dimension == "entry":
		return views[0].Path, 1
	default:
		return views[len(views)-1].Path, 1
	}
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
	byDay := map[string]map[string][]Hit{}
	for _, h := range s.hitsIn(w) {
		if h.Name != "" {
			if byDay[h.day] == nil {
				byDay[h.day] = map[string][]Hit{}
			}
			byDay[h.day][h.Name] = append(byDay[h.day][h.Name], h)
		}
	}
	sum := map[string]EventCount{}
	for _, names := range byDay {
		for i, e := range eventsOf(names) {
			if i < s.rules.NameCap && e.Name != other {
				sum[e.Name] = EventCount{e.Name, sum[e.Name].Count + e.Count, sum[e.Name].Visitors + e.Visitors}
				delete(names, e.Name)
			}
		}
		var rest []Hit
		for _, hits := range names {
			rest = append(rest, hits...)
		}
		if len(rest) > 0 {
			sum[other] = EventCount{other, sum[other].Count + int64(len(rest)), sum[other].Visitors + visitorDays(rest)}
		}
	}
	var out []EventCount
	for _, e := range sum {
		out = append(out, e)
	}
	orderEvents(out)
	return out[:min(len(out), limit)]
}

func eventsOf(names map[string][]Hit) []EventCount {
	var out []EventCount
	for name, hits := range names {
		out = append(out, EventCount{Name: name, Count: int64(len(hits)), Visitors: visitorDays(hits)})
	}
	orderEvents(out)
	return out
}

func orderEvents(events []EventCount) {
	sort.Slice(events, func(i, j int) bool {
		a, b := events[i], events[j]
		if (a.Name == other) != (b.Name == other) {
			return b.Name == other
		}
		if a.Count != b.Count {
			return a.Count > b.Count
		}
		return a.Name < b.Name
	})
}

// PropCount is one property and one value of it.
type PropCount struct {
	Key, Value string
	Count      int64
}

// Props returns the first limit properties of w's events of that name.
func (s *Site) Props(w Window, name string, limit int) []PropCount {
	byDay := map[string]map[string]map[string]int64{}
	for _, h := range s.hitsIn(w) {
		if h.Name != name {
			continue
		}
		for key, value := range h.Props {
			if byDay[h.day] == nil {
				byDay[h.day] = map[string]map[string]int64{}
			}
			if byDay[h.day][key] == nil {
				byDay[h.day][key] = map[string]int64{}
			}
			byDay[h.day][key][value]++
		}
	}
	counts := map[[2]string]int64{}
	for _, keys := range byDay {
		totals := map[string]int64{}
		for key, values := range keys {
			for _, n := range values {
				totals[key] += n
			}
		}
		for i, key := range byCount(totals) {
			if i >= s.rules.KeyCap {
				counts[[2]string{other, other}] += totals[key]
				continue
			}
			for j, value := range byCount(keys[key]) {
				if j >= s.rules.ValueCap {
					counts[[2]string{key, other}] += keys[key][value]
				} else {
					counts[[2]string{key, value}] += keys[key][value]
				}
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

// byCount are the texts with the highest count first, of equal ones the first by text.
func byCount(counts map[string]int64) []string {
	var texts []string
	for text := range counts {
		texts = append(texts, text)
	}
	sort.Slice(texts, func(i, j int) bool {
		a, b := texts[i], texts[j]
		return counts[a] > counts[b] || counts[a] == counts[b] && a < b
	})
	return texts
}
