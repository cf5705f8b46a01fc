// Package columns holds a site day's sessions and events column by column, packed as
// they are stored, and answers filtered questions from them: which sessions and events
// match, and what they add up to.
//
// A block is sessions of one day, those of a visitor next to each other and all in the
// same block, each with its events in order. A text is a label id of the site's
// dictionary, or a negative one that holds for one answer only; 0 is no text. A column
// maps sessions, or events, to a dictionary of its own of such ids.
package columns

import "errors"

// ErrDamaged says that stored columns are not what Encode makes.
var ErrDamaged = errors.New("stats/columns: damaged block")

// Schema names the columns of texts. The first of an event is the custom event's name,
// which pageviews don't have.
type Schema struct {
	Sessions, Events []string
}

// Columns is how many columns of texts there are.
func (s Schema) Columns() int { return len(s.Sessions) + len(s.Events) }

// Name returns a column's name: those of sessions come first.
func (s Schema) Name(column int) string {
	if column < len(s.Sessions) {
		return s.Sessions[column]
	}
	return s.Events[column-len(s.Sessions)]
}

// Session is one session with its events. Times are in microseconds: At from the start
// of the day.
type Session struct {
	At, Micros int64
	Labels     []int64 // by Schema.Sessions
	Events     []Event // not empty
}

// Event is a pageview or a custom event.
type Event struct {
	At     int64
	Labels []int64 // by Schema.Events
	Props  []int64 // ids of the pairs of key and value
}

// Column is what sessions or events have of one dimension: the label id of the i-th is
// Dict[Codes[i]]. Dict[0] is 0.
type Column struct {
	Codes []uint32
	Dict  []int64
}

// Props are the properties of the events that have any: of event At[i] those of
// Codes[Ends[i-1]:Ends[i]].
type Props struct {
	At    []int
	Ends  []int
	Codes []uint32
	Dict  []int64
}

// Block is sessions of one day by columns. Which of them are filled depends on what was
// asked for.
type Block struct {
	New     []bool   // the session is the first of its visitor
	Views   []uint32 // pageviews of the session
	Customs []uint32 // custom events of the session
	Starts  []int64  // of the session, as Session.At
	Micros  []int64
	At      []int64 // of events
	Labels  []Column
	Props   Props
	events  int
	dict    []int64 // that is being decoded
}

// NewBlock makes an empty block.
func (s Schema) NewBlock() *Block { return &Block{Labels: make([]Column, s.Columns())} }

// Sessions is how many there are.
func (b *Block) Sessions() int { return len(b.New) }

// Events is how many there are.
func (b *Block) Events() int { return b.events }

// Reset empties b and keeps its memory.
func (b *Block) Reset() {
	b.New, b.Views, b.Customs, b.Starts, b.Micros, b.At, b.events = b.New[:0], b.Views[:0], b.Customs[:0], b.Starts[:0], b.Micros[:0], b.At[:0], 0
	for i := range b.Labels {
		b.Labels[i].Codes, b.Labels[i].Dict = b.Labels[i].Codes[:0], b.Labels[i].Dict[:0]
	}
	b.Props = Props{At: b.Props.At[:0], Ends: b.Props.Ends[:0], Codes: b.Props.Codes[:0], Dict: b.Props.Dict[:0]}
}

// Builder makes a block of sessions one after another.
type Builder struct {
	schema Schema
	wanted []int // columns
	block  *Block
	codes  []map[int64]uint32 // by column
	pairs  map[int64]uint32
}

// NewBuilder makes an empty Builder.
func NewBuilder(s Schema) *Builder {
	all := make([]bool, s.Columns())
	for i := range all {
		all[i] = true
	}
	return NewBuilderOf(s, all)
}

// NewBuilderOf makes an empty Builder that fills in only the columns of texts that are
// wanted, and all else.
func NewBuilderOf(s Schema, wanted []bool) *Builder {
	b := &Builder{schema: s, block: s.NewBlock(), codes: make([]map[int64]uint32, s.Columns())}
	for i, w := range wanted {
		if w {
			b.wanted = append(b.wanted, i)
		}
	}
	b.Reset()
	return b
}

// Block is what was added so far; it holds until Reset.
func (b *Builder) Block() *Block { return b.block }

// Reset empties b.
func (b *Builder) Reset() {
	b.block.Reset()
	b.pairs = make(map[int64]uint32)
	for _, i := range b.wanted {
		b.codes[i] = make(map[int64]uint32)
		b.block.Labels[i].Dict = append(b.block.Labels[i].Dict, 0)
	}
	b.block.Props.Dict = append(b.block.Props.Dict, 0)
}

// AddVisitor adds a visitor's sessions of the day.
func (b *Builder) AddVisitor(sessions []Session) {
	for i, s := range sessions {
		b.add(s, i == 0)
	}
}

func (b *Builder) add(s Session, first bool) {
	to := b.block
	views := uint32(0)
	ofSessions, ofEvents := b.columns()
	for _, i := range ofSessions {
		b.label(i, s.Labels[i])
	}
	for _, e := range s.Events {
		if e.Labels[0] == 0 {
			views++
		}
		for _, i := range ofEvents {
			b.label(i, e.Labels[i-len(s.Labels)])
		}
		if len(e.Props) > 0 {
			for _, id := range e.Props {
				to.Props.Codes = append(to.Props.Codes, code(b.pairs, &to.Props.Dict, id))
			}
			to.Props.At, to.Props.Ends = append(to.Props.At, to.events), append(to.Props.Ends, len(to.Props.Codes))
		}
		to.At = append(to.At, e.At)
		to.events++
	}
	to.New, to.Starts, to.Micros = append(to.New, first), append(to.Starts, s.At), append(to.Micros, s.Micros)
	to.Views, to.Customs = append(to.Views, views), append(to.Customs, uint32(len(s.Events))-views)
}

// columns are those that are wanted: of sessions, of events.
func (b *Builder) columns() (ofSessions, ofEvents []int) {
	n := 0
	for n < len(b.wanted) && b.wanted[n] < len(b.schema.Sessions) {
		n++
	}
	return b.wanted[:n], b.wanted[n:]
}

func (b *Builder) label(column int, id int64) {
	to := &b.block.Labels[column]
	if id == 0 {
		to.Codes = append(to.Codes, 0)
		return
	}
	to.Codes = append(to.Codes, code(b.codes[column], &to.Dict, id))
}

func code(codes map[int64]uint32, dict *[]int64, id int64) uint32 {
	c, known := codes[id]
	if !known {
		c = uint32(len(*dict))
		codes[id] = c
		*dict = append(*dict, id)
	}
	return c
}
