package stats

import (
	"context"
	"time"

	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/stats/calendar"
)

// block is 4^level days from first on, a multiple of 4^level days from the epoch.
// Any range of n days is made of at most 6 blocks per level, so that reading it
// costs the logarithm of n.
type block struct {
	level int16
	first time.Time
}

// maxLevel makes the largest blocks 256 days long.
const maxLevel = 4

// openDays is how many days back from today a block must end before it is made:
// days in which there is no traffic yet may still get some.
const openDays = 3

func (b block) days() int { return 1 << (2 * b.level) }

func (b block) last() time.Time { return b.first.AddDate(0, 0, b.days()-1) }

// blockOver returns the block of level that holds day.
func blockOver(level int16, day time.Time) block {
	size := block{level: level}.days()
	number := calendar.DaysBetween(time.Unix(0, 0).UTC(), day)
	return block{level: level, first: day.AddDate(0, 0, -((number%size)+size)%size)}
}

// blocksOver returns the blocks of each level above 0 that hold day, as columns.
func blocksOver(day time.Time) ([]int16, []time.Time) {
	var levels []int16
	var firsts []time.Time
	for level := int16(1); level <= maxLevel; level++ {
		levels, firsts = append(levels, level), append(firsts, blockOver(level, day).first)
	}
	return levels, firsts
}

// rebuildBlocks makes the blocks that hold the day, which is sealed and was
// removed from them, as far as all of their days are sealed.
func (w *dayWriter) rebuildBlocks(ctx context.Context) error {
	for level := int16(1); level <= maxLevel; level++ {
		b := blockOver(level, w.day.Date)
		if complete, err := w.complete(ctx, b); err != nil || !complete {
			return err
		}
		if err := w.build(ctx, b); err != nil {
			return err
		}
	}
	return nil
}

func (w *dayWriter) complete(ctx context.Context, b block) (bool, error) {
	if today := calendar.DateOf(w.o.Now().UTC()); b.last().After(today.AddDate(0, 0, -openDays)) {
		return false, nil
	}
	open, err := w.queries.CountDaysNotSealed(ctx, w.tx, w.siteID, b.first, b.last())
	return open == 0, err
}

// build makes a complete block, and those of the level below that are missing.
func (w *dayWriter) build(ctx context.Context, b block) error {
	if b.level > 1 {
		if err := w.buildParts(ctx, b); err != nil {
			return err
		}
	}
	rows, err := w.queries.ListBlockCounts(ctx, w.tx, dbsqlc.ListBlockCountsParams{
		SiteID: w.siteID, Level: b.level - 1, FirstDay: b.first, LastDay: b.last(),
	})
	if err != nil {
		return err
	}
	lists := make(map[countKey][][]labelCount)
	for _, row := range rows {
		counts, err := unpackCounts(row.Counts)
		if err != nil {
			return err
		}
		key := countKey{dimension: Dimension(row.Dimension), part: row.Part}
		lists[key] = append(lists[key], counts)
	}
	sums := make(map[countKey][]labelCount, len(lists))
	for key, of := range lists {
		sums[key] = sumCounts(of)
	}
	if err := saveCounts(ctx, w.queries, w.tx, w.siteID, b, sums); err != nil {
		return err
	}
	return w.queries.InsertRollupBlock(ctx, w.tx, w.siteID, b.level, b.first)
}

func (w *dayWriter) buildParts(ctx context.Context, b block) error {
	days, err := w.queries.ListDays(ctx, w.tx, w.siteID, b.first, b.last())
	if err != nil {
		return err
	}
	rows, err := w.queries.ListRollupBlocks(ctx, w.tx, w.siteID, b.first, b.last())
	if err != nil {
		return err
	}
	there := make(map[block]bool, len(rows))
	for _, row := range rows {
		there[block{level: row.Level, first: row.FirstDay.UTC()}] = true
	}
	for _, day := range days {
		part := blockOver(b.level-1, day.UTC())
		if there[part] {
			continue
		}
		if err := w.build(ctx, part); err != nil {
			return err
		}
		there[part] = true
	}
	return nil
}
