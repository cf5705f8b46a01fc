package stats

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/stats/columns"
)

// packVisits writes a folded visitor's sessions, so that filtered questions can read them.
func (r *rawPortion) packVisits(d *dictionary, start time.Time) []byte {
	sessions := make([]columns.Session, len(r.visits))
	for i, v := range r.visits {
		sessions[i] = v.resolve(d, start)
	}
	return schema().AppendVisitor(nil, sessions)
}

// pack writes the columns of the day, whose labels were counted.
func (w *dayWriter) pack(ctx context.Context) error {
	if err := w.queries.DeleteRollupColumns(ctx, w.tx, w.siteID, w.day.Date); err != nil {
		return err
	}
	p := packer{dayWriter: w, labels: newDictionary(w.queries, w.tx, w.siteID), builder: columns.NewBuilder(schema()), named: make(map[string]int)}
	if err := eachVisits(ctx, w.queries, w.tx, w.siteID, w.day, func(visitors []int64, visits map[int64][]rawVisit) error {
		return p.add(ctx, visitors, visits)
	}); err != nil {
		return err
	}
	return p.flush(ctx)
}

// packer makes blocks of a day's visitors.
type packer struct {
	*dayWriter
	labels   *dictionary
	builder  *columns.Builder
	named    map[string]int // by column, how many texts it brought into the dictionary
	block    int32
	sessions int64
}

func (p *packer) add(ctx context.Context, visitors []int64, visits map[int64][]rawVisit) error {
	if err := p.know(ctx, visits); err != nil {
		return err
	}
	for _, visitor := range visitors {
		var sessions []columns.Session
		for _, v := range visits[visitor] {
			sessions = append(sessions, v.resolve(p.labels, p.day.Start))
		}
		p.builder.AddVisitor(sessions)
		p.sessions += int64(len(sessions))
		if p.builder.Block().Events() >= p.o.BlockEvents {
			if err := p.flush(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// know makes ids of all texts known. What counts as a label has one; of other texts a
// column brings as many into the dictionary as have a name, and stores the rest itself.
func (p *packer) know(ctx context.Context, visits map[int64][]rawVisit) error {
	byColumn := make(map[string]map[labelText]bool)
	var all []labelText
	for _, of := range visits {
		for _, v := range of {
			all = v.texts(all)
			for _, d := range dimensionTable {
				if d.of == ofSessions {
					continue // rolled up, each of them
				}
				for _, e := range v.events {
					if t := (labelText{label: d.event(e.eventRow)}); t.label != "" {
						if byColumn[string(d.name)] == nil {
							byColumn[string(d.name)] = make(map[labelText]bool)
						}
						byColumn[string(d.name)][t] = true
					}
				}
			}
		}
	}
	sealed := newDictionary(p.queries, p.tx, p.siteID)
	if err := sealed.lookSealed(ctx, all); err != nil {
		return err
	}
	var missing []labelText
	for name, texts := range byColumn {
		maps.DeleteFunc(texts, func(t labelText, _ bool) bool { return sealed.ids[t] > 0 })
		if p.named[name]+len(texts) > p.o.LabelCap {
			continue
		}
		p.named[name] += len(texts)
		missing = slices.AppendSeq(missing, maps.Keys(texts))
	}
	if err := p.labels.intern(ctx, missing, nil); err != nil {
		return err
	}
	return p.labels.lookSealed(ctx, all)
}

// flush stores what was added.
func (p *packer) flush(ctx context.Context) error {
	if p.builder.Block().Sessions() == 0 {
		return nil
	}
	rows := dbsqlc.SaveRollupColumnsParams{SiteID: p.siteID, Day: p.day.Date, Block: p.block}
	parts := schema().Encode(p.builder.Block(), func(id int64) columns.Text {
		t := p.labels.texts[id]
		return columns.Text{Label: t.label, Value: t.value}
	})
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		rows.Parts, rows.Packed = append(rows.Parts, name), append(rows.Packed, parts[name])
	}
	p.block++
	p.builder.Reset()
	return p.queries.SaveRollupColumns(ctx, p.tx, rows)
}

// packSealed writes the columns of a day that was sealed without, unless its events are
// not all there any more.
func (w *dayWriter) packSealed(ctx context.Context) error {
	traffic, err := w.events().Traffic(ctx, w.spans())
	if err != nil {
		return err
	}
	stored, err := w.stored(ctx)
	if err != nil {
		return err
	}
	if traffic[0] != stored.traffic {
		return fmt.Errorf("stats: %s of site %s: its rollups have %v, its events %v", w.day.Date.Format(time.DateOnly), w.siteID, stored.traffic, traffic[0])
	}
	if err := w.pack(ctx); err != nil {
		return err
	}
	return w.queries.SetSiteDayPacked(ctx, w.tx, w.siteID, w.day.Date)
}
