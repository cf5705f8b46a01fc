package stats

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/waypost/waypost/internal/stats/columns"
)

// Stored columns are read in two steps, a stretch of days at a time: first what is
// filtered by, of all days, then everything else of the blocks in which something may
// match. The second step asks for a window of blocks at a time, all windows in one round
// trip: while one is counted, the next is read, and PostgreSQL looks for the one after it.

// listColumns is by hand, since sqlc would copy everything out of the driver's buffer. The
// order is that of the primary key, so that nothing is sorted.
const listColumns = `
select part, day, block, packed from rollup_columns
where site_id = $1 and part = any ($2) and day between $3 and $4 and block between $5 and $6`

// byKey makes listColumns be planned once per connection, as a loop over the primary key,
// however the table grows; usual ends that.
const (
	byKey = `set local plan_cache_mode = force_generic_plan; set local enable_seqscan = off; set local enable_bitmapscan = off`
	usual = `set local plan_cache_mode = auto; set local enable_seqscan = on; set local enable_bitmapscan = on`
)

// scanPacked goes through the stored columns of sealed days.
func (s *scanner) scanPacked(ctx context.Context, days []dayAsks) error {
	if len(days) == 0 {
		return nil
	}
	if _, err := s.tx.Exec(ctx, byKey); err != nil {
		return err
	}
	p := packedScan{
		scanner: s, block: s.schema.NewBlock(), numbers: make(map[string]int),
		parts: s.schema.Parts(s.wanted, s.match.columns()), first: 1 + len(s.match.columns()),
	}
	for i, name := range p.parts {
		p.numbers[name] = i
	}
	for len(days) > 0 {
		n, views := 1, days[0].traffic.Pageviews
		for ; n < len(days) && days[n].Date.After(days[n-1].Date); n++ {
			if views += days[n].traffic.Pageviews; views > s.window {
				break
			}
		}
		if err := p.stretch(ctx, days[:n]); err != nil {
			return err
		}
		days = days[n:]
	}
	_, err := s.tx.Exec(ctx, usual)
	return err
}

// packedScan is scanPacked under way.
type packedScan struct {
	*scanner
	block   *columns.Block
	parts   []string       // that are wanted, in the order of decoding
	numbers map[string]int // of parts
	first   int            // how many of them are read in the first step
	found   []*storedBlock // of the stretch
	memory  arena          // of the first step
	ahead   [2]arena       // of windows: one that is read, one that is counted
	dicts   []int64        // of what is filtered by
}

// arena is memory that is used again when all of it is done with.
type arena struct {
	chunks [][]byte
	at     int // the chunk in use
}

// arenaChunk is the least size of a chunk.
const arenaChunk = 1 << 18

func (a *arena) reset() {
	for i := range a.chunks {
		a.chunks[i] = a.chunks[i][:0]
	}
	a.at = 0
}

// keep copies b.
func (a *arena) keep(b []byte) []byte {
	for ; a.at < len(a.chunks); a.at++ {
		if c := a.chunks[a.at]; cap(c)-len(c) >= len(b) {
			from := len(c)
			c = append(c, b...)
			a.chunks[a.at] = c
			return c[from:len(c):len(c)]
		}
	}
	a.chunks = append(a.chunks, make([]byte, 0, max(arenaChunk, len(b))))
	return a.keep(b)
}

// storedBlock is a block with the parts that were read, nil for those that weren't stored.
type storedBlock struct {
	at       int // of its day among the stretch's
	number   int32
	parts    [][]byte
	dicts    [][]int64 // of those parts that are filtered by, of which the rest is in parts
	alone    bool      // its day has no other
	hopeless bool      // nothing in it matches
}

// stretch counts days that follow each other.
func (p *packedScan) stretch(ctx context.Context, days []dayAsks) error {
	if err := p.filterColumns(ctx, days); err != nil {
		return err
	}
	next := 0 // whose last block wasn't yet
	finish := func(before int) {
		for ; next < before; next++ {
			days[next].done()
		}
	}
	err := p.readRest(ctx, days, func(of []*storedBlock) error {
		for _, b := range of {
			finish(b.at)
			if err := p.count(days[b.at], b); err != nil {
				return err
			}
		}
		return nil
	})
	finish(len(days))
	return err
}

// filterColumns finds the stretch's blocks in which something may match.
func (p *packedScan) filterColumns(ctx context.Context, days []dayAsks) error {
	at := make(map[time.Time]int, len(days))
	for i, g := range days {
		at[g.Date] = i
	}
	blocks := make([][]*storedBlock, len(days))
	p.memory.reset()
	p.dicts = p.dicts[:0]
	rows, err := p.tx.Query(ctx, listColumns, p.siteID, p.parts[:p.first], days[0].Date, days[len(days)-1].Date, 0, allRows)
	if err != nil {
		return err
	}
	err = p.eachRow(rows, func(part int, day time.Time, number int32, packed []byte) error {
		i, wanted := at[day]
		if !wanted {
			return nil
		}
		b := p.blockOf(&blocks[i], i, number)
		if b.hopeless {
			return nil
		}
		if part > 0 {
			from := len(p.dicts)
			var err error
			if p.dicts, packed, err = columns.Dict(p.dicts, packed, p.know); err != nil {
				return err
			}
			dict := p.dicts[from:len(p.dicts):len(p.dicts)]
			if b.hopeless = !p.match.mayMatch(p.parts[part], dict); b.hopeless {
				p.dicts = p.dicts[:from]
				return nil
			}
			b.dicts[part] = dict
		}
		b.parts[part] = p.memory.keep(packed)
		return nil
	})
	p.found = p.found[:0]
	for _, of := range blocks {
		for _, b := range of {
			for i := 1; i < p.first && !b.hopeless; i++ {
				b.hopeless = b.parts[i] == nil && !p.match.mayLack(p.parts[i])
			}
			if b.alone = len(of) == 1; !b.hopeless {
				p.found = append(p.found, b)
			}
		}
	}
	return err
}

// blockOf returns the block with a number of those of a day, in whose order they come.
func (p *packedScan) blockOf(of *[]*storedBlock, at int, number int32) *storedBlock {
	for i := range *of {
		if (*of)[i].number == number {
			return (*of)[i]
		}
	}
	b := &storedBlock{at: at, number: number, parts: make([][]byte, len(p.parts)), dicts: make([][]int64, p.first)}
	*of = append(*of, b)
	return b
}

func (p *packedScan) eachRow(rows pgx.Rows, f func(part int, day time.Time, number int32, packed []byte) error) error {
	var part pgtype.DriverBytes
	var day time.Time
	var number int32
	var packed pgtype.DriverBytes
	_, err := pgx.ForEachRow(rows, []any{&part, &day, &number, &packed}, func() error {
		return f(p.numbers[string(part)], day.UTC(), number, packed)
	})
	return err
}

// windows cuts what was found into windows: blocks of days that follow each other, or of
// one day.
func (p *packedScan) windows(days []dayAsks) [][]*storedBlock {
	var out [][]*storedBlock
	size := 0
	for i, b := range p.found {
		n := len(b.parts[0]) * (len(p.parts) - p.first) * 2
		last := len(out) - 1
		if i == 0 || int64(size+n) > p.window || days[b.at].Date.Sub(days[p.found[i-1].at].Date) > 3*24*time.Hour || out[last][0].at != b.at && !(b.alone && out[last][0].alone) {
			out, size = append(out, nil), 0
			last++
		}
		out[last], size = append(out[last], b), size+n
	}
	return out
}

// readRest reads the other columns of what was found and calls f for each window.
func (p *packedScan) readRest(ctx context.Context, days []dayAsks, f func([]*storedBlock) error) error {
	if len(p.found) == 0 {
		return nil
	}
	if p.first == len(p.parts) {
		return f(p.found)
	}
	windows := p.windows(days)
	var batch pgx.Batch
	for _, w := range windows {
		first, last := w[0], w[len(w)-1]
		from, to := int32(0), int32(allRows)
		if first.at == last.at {
			from, to = first.number, last.number
		}
		batch.Queue(listColumns, p.siteID, p.parts[p.first:], days[first.at].Date, days[last.at].Date, from, to)
	}
	results := p.tx.SendBatch(ctx, &batch)
	err := p.eachWindow(results, days, windows, f)
	if closed := results.Close(); err == nil {
		err = closed
	}
	return err
}

// eachWindow reads a window while f counts the one before. When it returns, nobody uses
// results any more.
func (p *packedScan) eachWindow(results pgx.BatchResults, days []dayAsks, windows [][]*storedBlock, f func([]*storedBlock) error) error {
	read, free, stop := make(chan error), make(chan *arena, len(p.ahead)), make(chan struct{})
	for i := range p.ahead {
		free <- &p.ahead[i]
	}
	go func() {
		defer close(read)
		for _, w := range windows {
			select {
			case <-stop:
				return
			case memory := <-free:
				err := p.readWindow(results, days, w, memory)
				select {
				case read <- err:
				case <-stop:
					return
				}
				if err != nil {
					return
				}
			}
		}
	}()
	defer func() {
		close(stop)
		for range read {
		}
	}()
	for i, w := range windows {
		if err := <-read; err != nil {
			return err
		}
		if err := f(w); err != nil {
			return err
		}
		free <- &p.ahead[i%len(p.ahead)]
	}
	return nil
}

func (p *packedScan) readWindow(results pgx.BatchResults, days []dayAsks, w []*storedBlock, memory *arena) error {
	memory.reset()
	rows, err := results.Query()
	if err != nil {
		return err
	}
	at := 0 // rows of a part come in the order of w
	return p.eachRow(rows, func(part int, day time.Time, number int32, packed []byte) error {
		same := func(b *storedBlock) bool { return b.number == number && days[b.at].Date.Equal(day) }
		for n := range w {
			if i := (at + n) % len(w); same(w[i]) {
				w[i].parts[part], at = memory.keep(packed), i+1
				return nil
			}
		}
		return nil
	})
}

// count decodes a block and lets the counters have it.
func (p *packedScan) count(d dayAsks, of *storedBlock) error {
	b := p.block
	b.Reset()
	for i, part := range of.parts {
		var err error
		switch {
		case part == nil:
		case i > 0 && i < p.first:
			err = p.schema.DecodeCodes(b, p.parts[i], of.dicts[i], part)
		default:
			err = p.schema.Decode(b, p.parts[i], part, p.know)
		}
		if err != nil {
			return err
		}
	}
	p.schema.Complete(b, p.wanted)
	p.take(d, b, of.alone)
	return nil
}
