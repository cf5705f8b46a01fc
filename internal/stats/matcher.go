package stats

import (
	"context"
	"slices"

	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/db/where"
	"github.com/waypost/waypost/internal/stats/columns"
)

// matcher says which sessions and events of a block filters leave.
type matcher struct {
	labels *dictionary
	of     []columnFilter
	props  []propertyFilter
}

// ids are the label ids that a pattern matches.
type ids map[int64]bool

// columnFilter is a filter of a dimension.
type columnFilter struct {
	rule
	column   int
	ofEvents bool
	yes, no  ids   // of the site's dictionary; other texts are compared
	only     int64 // the one that matches, where that is all there is to say; else 0
	accepted []bool
}

// propertyFilter is a filter of a property.
type propertyFilter struct {
	rule
	key           string
	yes, no, some ids // some are all pairs with the key and a value that isn't empty
}

// maxMatching is how many labels a pattern may match before the question is too expensive.
const maxMatching = 200_000

// newMatcher looks up what filters' values stand for. It returns ErrTooExpensive when a
// pattern stands for too much.
func newMatcher(ctx context.Context, labels *dictionary, filters Filters) (*matcher, error) {
	m := &matcher{labels: labels}
	for name, values := range filters {
		if len(values) == 0 {
			continue
		}
		r := parseRule(values)
		var err error
		if key, isProp := name.prop(); isProp {
			err = m.addProp(ctx, key, r)
		} else {
			err = m.addColumn(ctx, name, r)
		}
		if err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *matcher) addColumn(ctx context.Context, name Filter, r rule) error {
	f := columnFilter{rule: r}
	for i, d := range dimensionTable {
		if d.filter == name {
			f.column, f.ofEvents = i, d.of == ofEvents
			f.absent = d.name == byEvent
		}
	}
	var err error
	if f.yes, err = m.find(ctx, "", r.yes); err != nil {
		return err
	}
	f.no, err = m.find(ctx, "", r.no)
	if len(r.yes) == 1 && len(r.no) == 0 && !r.none && !r.neverNone {
		if s, exact := r.yes[0].exact(); exact {
			f.only = m.labels.ids[labelText{label: s}]
		}
	}
	m.of = append(m.of, f)
	return err
}

func (m *matcher) addProp(ctx context.Context, key string, r rule) error {
	f := propertyFilter{rule: r, key: key}
	f.absent = true
	var err error
	if f.yes, err = m.find(ctx, key, r.yes); err != nil {
		return err
	}
	if f.no, err = m.find(ctx, key, r.no); err != nil {
		return err
	}
	if r.none || r.neverNone {
		f.some, err = m.find(ctx, key, []pattern{{"", ""}})
	}
	m.props = append(m.props, f)
	return err
}

// find returns the ids in the site's dictionary that match one of the patterns: of
// labels, or with a key of the pairs with it.
func (m *matcher) find(ctx context.Context, key string, patterns []pattern) (ids, error) {
	found := ids{}
	var exact []labelText
	var likes []string
	for _, p := range patterns {
		s, is := p.exact()
		switch {
		case is && key != "":
			exact = append(exact, labelText{label: key, value: s})
		case is:
			exact = append(exact, labelText{label: s})
		default:
			likes = append(likes, likePattern(p))
		}
	}
	if err := m.labels.find(ctx, exact); err != nil {
		return nil, err
	}
	for _, t := range exact {
		found[m.labels.ids[t]] = true
	}
	if len(likes) == 0 {
		return found, nil
	}
	var matching []int64
	var err error
	d := m.labels
	if key != "" {
		matching, err = d.queries.FindMatchingProps(ctx, d.tx, dbsqlc.FindMatchingPropsParams{SiteID: d.siteID, Key: key, Patterns: likes, MaxRows: maxMatching + 1})
	} else {
		matching, err = d.queries.FindMatchingLabels(ctx, d.tx, d.siteID, likes, maxMatching+1)
	}
	if len(matching) > maxMatching {
		return nil, ErrTooExpensive
	}
	for _, id := range matching {
		found[id] = true
	}
	return found, err
}

// likePattern is p for SQL's LIKE.
func likePattern(p pattern) string {
	out := ""
	for i, part := range p {
		if i > 0 {
			out += "%"
		}
		out += where.Literal(part)
	}
	return out
}

// want adds what m reads to w.
func (m *matcher) want(w *columns.Wanted) {
	for _, f := range m.of {
		w.Labels[f.column] = true
		// A match may be a pageview or not.
		w.Labels[columnOf(byEvent)] = w.Labels[columnOf(byEvent)] || f.ofEvents
	}
	if len(m.props) > 0 {
		w.Props, w.Labels[columnOf(byEvent)] = true, true
	}
}

// columns are the names of those that m looks at.
func (m *matcher) columns() []string {
	var names []string
	for _, f := range m.of {
		names = append(names, string(dimensionTable[f.column].name))
	}
	if len(m.props) > 0 {
		names = append(names, columns.PartProps)
	}
	return names
}

// mayMatch reports whether anything of a block can match, as far as the dictionary of the
// column with this name says.
func (m *matcher) mayMatch(name string, dict []int64) bool {
	for i := range m.of {
		f := &m.of[i]
		if string(dimensionTable[f.column].name) == name && !f.judge(dict, m.labels) {
			return false
		}
	}
	for _, f := range m.props {
		if name == columns.PartProps && !f.mayLack() && !slices.ContainsFunc(f.flags(dict, m.labels), func(has byte) bool { return has&propYes != 0 }) {
			return false
		}
	}
	return true
}

// mayLack reports whether anything can match of a block without this column.
func (m *matcher) mayLack(name string) bool {
	for i := range m.of {
		if f := &m.of[i]; string(dimensionTable[f.column].name) == name && !f.matchesNone() {
			return false
		}
	}
	for _, f := range m.props {
		if name == columns.PartProps && !f.matchesNone() {
			return false
		}
	}
	return true
}

// marks are the sessions and the events of a block that are left. Events is nil when
// all events of the sessions are.
type marks struct {
	left     []leftSession
	events   []bool
	sessions []bool  // while left is made
	at       []int32 // of the events that are left, and behind them how many there are at all
	memory   [2][]bool
}

// leftSession is a session that is left, in order: the number of its visitor within the
// block, from 1 on, and its events from, up to but not including to.
type leftSession struct {
	at, visitor, from, to int32
}

// mark fills in k, and reports whether anything is left.
func (m *matcher) mark(b *columns.Block, k *marks) bool {
	k.sessions, k.events = nil, nil
	for i := range m.of {
		f := &m.of[i]
		c := b.Labels[f.column]
		if !f.judge(c.Dict, m.labels) {
			return false
		}
		if f.ofEvents {
			leave(&k.events, &k.memory[1], c.Codes, f.accepted)
		} else {
			leave(&k.sessions, &k.memory[0], c.Codes, f.accepted)
		}
	}
	if len(m.props) > 0 && k.events == nil {
		k.events = ones(&k.memory[1], b.Events())
	}
	for _, f := range m.props {
		f.mark(b, k.events, m.labels)
	}
	if k.sessions == nil {
		k.sessions = ones(&k.memory[0], b.Sessions())
	}
	if k.events != nil {
		k.listEvents()
	}
	k.list(b)
	return len(k.left) > 0
}

// leave takes out of to what has no accepted code; nil is everything.
func leave(to, memory *[]bool, codes []uint32, accepted []bool) {
	if *to == nil {
		if cap(*memory) < len(codes) {
			*memory = make([]bool, len(codes))
		}
		*to = (*memory)[:len(codes)]
		of := *to
		for i, code := range codes {
			of[i] = accepted[code]
		}
		return
	}
	of := (*to)[:len(codes)]
	for i, code := range codes {
		if !accepted[code] {
			of[i] = false
		}
	}
}

// listEvents makes k.at.
func (k *marks) listEvents() {
	if cap(k.at) <= len(k.events) {
		k.at = make([]int32, len(k.events)+1)
	}
	at, n := k.at[:len(k.events)+1], 0
	for e, is := range k.events {
		at[n] = int32(e) // kept or not, so that nothing has to be foretold
		n += int(one(is))
	}
	at[n] = int32(len(k.events))
	k.at = at[:n+1]
}

// list makes k.left: the sessions that are left, if events are looked at only those with
// one that is.
func (k *marks) list(b *columns.Block) {
	if cap(k.left) < len(b.New) {
		k.left = make([]leftSession, len(b.New))
	}
	left, n, visitor, from, next := k.left[:len(b.New)], 0, int32(0), int32(0), 0
	views, customs, is := b.Views[:len(left)], b.Customs[:len(left)], k.sessions[:len(left)]
	for i, first := range b.New {
		visitor += one(first)
		to := from + int32(views[i]+customs[i])
		keep := one(is[i])
		if k.events != nil {
			some := int32(0)
			for k.at[next] < to {
				next++
				some = 1
			}
			keep &= some
		}
		left[n] = leftSession{int32(i), visitor, from, to} // kept or not, likewise
		n += int(keep)
		from = to
	}
	k.left = left[:n]
}

// one is 1 for true.
func one(b bool) int32 {
	var n int32
	if b {
		n = 1
	}
	return n
}

func ones(memory *[]bool, n int) []bool {
	if cap(*memory) < n {
		*memory = make([]bool, n)
	}
	out := (*memory)[:n]
	for i := range out {
		out[i] = true
	}
	return out
}

// judge fills in which codes of a dictionary match, and reports whether any does.
func (f *columnFilter) judge(dict []int64, labels *dictionary) bool {
	f.accepted = f.accepted[:0]
	some := false
	if f.only != 0 {
		for _, id := range dict {
			f.accepted = append(f.accepted, id == f.only)
			some = some || id == f.only
		}
		return some
	}
	for _, id := range dict {
		var ok bool
		switch {
		case id == 0:
			ok = f.matchesNone()
		case id > 0:
			ok = !f.no[id] && (f.yes[id] || !f.any())
		default:
			ok = f.matches(labels.texts[id].label)
		}
		f.accepted = append(f.accepted, ok)
		some = some || ok
	}
	return some
}

// What is to know of a pair of key and value.
const (
	propYes  = 1 << iota // what the filter wants
	propNo               // what it excludes
	propSome             // it has the key
)

// flags are what is to know of each pair of a dictionary.
func (f propertyFilter) flags(dict []int64, labels *dictionary) []byte {
	of := make([]byte, len(dict))
	for i, id := range dict {
		switch t := labels.texts[id]; {
		case id > 0:
			of[i] = flag(f.yes[id], propYes) | flag(f.no[id], propNo) | flag(f.some[id], propSome)
		case id < 0 && t.label == f.key && t.value != "":
			of[i] = flag(matchesAny(f.rule.yes, t.value), propYes) | flag(matchesAny(f.rule.no, t.value), propNo) | propSome
		}
	}
	return of
}

// mayLack reports whether an event matches without a pair that f wants.
func (f propertyFilter) mayLack() bool { return f.none || !f.any() }

// mark clears the events that f doesn't leave.
func (f propertyFilter) mark(b *columns.Block, events []bool, labels *dictionary) {
	p := b.Props
	of := f.flags(p.Dict, labels)
	lacking := f.matchesNone()
	before, from := 0, 0
	for i, at := range p.At {
		for ; before < at; before++ {
			events[before] = events[before] && lacking
		}
		has := byte(0)
		for _, code := range p.Codes[from:p.Ends[i]] {
			has |= of[code]
		}
		from = p.Ends[i]
		ok := has&propYes != 0 || !f.any() || f.none && has&propSome == 0
		ok = ok && has&propNo == 0 && (!f.neverNone || has&propSome != 0)
		events[at] = events[at] && ok
		before = at + 1
	}
	for ; before < len(events); before++ {
		events[before] = events[before] && lacking
	}
}

func flag(set bool, f byte) byte {
	if set {
		return f
	}
	return 0
}
