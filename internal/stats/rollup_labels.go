package stats

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db/dbsqlc"
)

// other is the row of the labels beyond the cap; a label that happens to read so
// is one of them.
const other = "(other)"

// otherID is other's label id in the dimensions that have a cap.
const otherID = 0

// labelText is a label as it is stored: of a property, its key and its value.
type labelText struct {
	label, value string
}

// digest identifies t within a site.
func (t labelText) digest() [sha256.Size]byte {
	b := make([]byte, 0, 8+len(t.label)+len(t.value))
	b = binary.BigEndian.AppendUint64(b, uint64(len(t.label)))
	b = append(b, t.label...)
	return sha256.Sum256(append(b, t.value...))
}

// dictionary is a site's label ids, as far as they were asked for.
type dictionary struct {
	queries  *dbsqlc.Queries
	tx       pgx.Tx
	siteID   uuid.UUID
	ids      map[labelText]int64
	texts    map[int64]labelText
	openDays map[int64]time.Time // of the ids that were looked up and that nothing sealed has
	unknown  int64               // the last id given to a text that the dictionary lacks; negative
}

func newDictionary(queries *dbsqlc.Queries, tx pgx.Tx, siteID uuid.UUID) *dictionary {
	return &dictionary{queries: queries, tx: tx, siteID: siteID, ids: make(map[labelText]int64), texts: make(map[int64]labelText), openDays: make(map[int64]time.Time)}
}

// find makes ids of texts known: to those that the dictionary lacks it gives
// negative ids, which hold as long as d does.
func (d *dictionary) find(ctx context.Context, texts []labelText) error {
	missing, err := d.load(ctx, texts)
	if err != nil {
		return err
	}
	for _, t := range missing {
		d.unknown--
		d.know(t, d.unknown)
	}
	return nil
}

// idOf is find for one text, whose id it returns.
func (d *dictionary) idOf(ctx context.Context, t labelText) (int64, error) {
	err := d.find(ctx, []labelText{t})
	return d.ids[t], err
}

// intern makes ids of texts known and adds those that are missing to the
// dictionary, in the order of their digests: for good, or with openDay until all days up
// to that one are sealed. The caller holds the site's lock.
func (d *dictionary) intern(ctx context.Context, texts []labelText, openDay *time.Time) error {
	missing, err := d.load(ctx, texts)
	if err != nil {
		return err
	}
	var moved []int64
	for _, t := range texts {
		id := d.ids[t]
		if day, open := d.openDays[id]; open && (openDay == nil || day.Before(*openDay)) {
			moved = append(moved, id)
			delete(d.openDays, id)
		}
	}
	if len(moved) > 0 {
		if err := d.queries.SetLabelsOpenDay(ctx, d.tx, openDay, d.siteID, moved); err != nil {
			return err
		}
	}
	if len(missing) == 0 {
		return nil
	}
	last, err := d.queries.FindLastRollupLabel(ctx, d.tx, d.siteID)
	if err != nil {
		return err
	}
	p := dbsqlc.InsertRollupLabelsParams{SiteID: d.siteID, OpenDay: openDay}
	for _, digest := range slices.SortedFunc(maps.Keys(missing), compareDigests) {
		t := missing[digest]
		last++
		d.know(t, last)
		p.Ids, p.Digests = append(p.Ids, last), append(p.Digests, digest[:])
		p.Labels, p.Values = append(p.Labels, t.label), append(p.Values, t.value)
	}
	if err := d.queries.InsertRollupLabels(ctx, d.tx, p); err != nil {
		return err
	}
	return d.queries.SetLastRollupLabel(ctx, d.tx, last, d.siteID)
}

func compareDigests(a, b [sha256.Size]byte) int { return slices.Compare(a[:], b[:]) }

// load reads the ids of texts and returns those that have none.
func (d *dictionary) load(ctx context.Context, texts []labelText) (map[[sha256.Size]byte]labelText, error) {
	asked := make(map[[sha256.Size]byte]labelText)
	var digests [][]byte
	for _, t := range texts {
		if _, known := d.ids[t]; known {
			continue
		}
		digest := t.digest()
		if _, twice := asked[digest]; !twice {
			asked[digest] = t
			digests = append(digests, digest[:])
		}
	}
	if len(digests) == 0 {
		return nil, nil
	}
	rows, err := d.queries.FindRollupLabels(ctx, d.tx, d.siteID, digests)
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		digest := [sha256.Size]byte(row.Digest)
		d.know(asked[digest], row.ID)
		if row.OpenDay != nil {
			d.openDays[row.ID] = row.OpenDay.UTC()
		}
		delete(asked, digest)
	}
	return asked, nil
}

// look returns the ids that the site's dictionary has of texts, and keeps none.
func (d *dictionary) look(ctx context.Context, texts []labelText) (map[labelText]int64, error) {
	fresh := newDictionary(d.queries, d.tx, d.siteID)
	_, err := fresh.load(ctx, texts)
	return fresh.ids, err
}

// lookSealed is find, but that what nothing sealed has counts as unknown: it may go.
func (d *dictionary) lookSealed(ctx context.Context, texts []labelText) error {
	fresh := newDictionary(d.queries, d.tx, d.siteID)
	if _, err := fresh.load(ctx, texts); err != nil {
		return err
	}
	for _, t := range texts {
		if _, known := d.ids[t]; known {
			continue
		}
		id, there := fresh.ids[t]
		if _, open := fresh.openDays[id]; !there || open {
			d.unknown--
			id = d.unknown
		}
		d.know(t, id)
	}
	return nil
}

// capProps leaves of a day's counts of an event's properties, by the ids of their pairs,
// the first keys by their counts, and of each of these the first values; the others become
// (other).
func (d *dictionary) capProps(ctx context.Context, counts []labelCount, caps EventCaps) ([]labelCount, error) {
	ids := make([]int64, len(counts))
	for i, c := range counts {
		ids[i] = c.label
	}
	if err := d.name(ctx, ids); err != nil {
		return nil, err
	}
	byKey := make(map[string][]labelCount)
	ofKey := make(map[string]int64)
	for _, c := range counts {
		key := d.texts[c.label].label
		byKey[key] = append(byKey[key], c)
		ofKey[key] += c.pageviews
	}
	keys := slices.SortedFunc(maps.Keys(byKey), func(a, b string) int { return cmp.Or(cmp.Compare(ofKey[b], ofKey[a]), cmp.Compare(a, b)) })
	var kept []labelCount
	rest := make(map[labelText]int64)
	for i, key := range keys {
		values := byKey[key]
		if i >= caps.Keys {
			rest[labelText{other, other}] += ofKey[key]
			continue
		}
		if len(values) > caps.Values {
			slices.SortFunc(values, func(a, b labelCount) int {
				return cmp.Or(cmp.Compare(b.pageviews, a.pageviews), cmp.Compare(d.texts[a.label].value, d.texts[b.label].value))
			})
			for _, c := range values[caps.Values:] {
				rest[labelText{key, other}] += c.pageviews
			}
			values = values[:caps.Values]
		}
		kept = append(kept, values...)
	}
	if err := d.find(ctx, slices.Collect(maps.Keys(rest))); err != nil {
		return nil, err
	}
	for t, n := range rest {
		kept = append(kept, labelCount{label: d.ids[t], pageviews: n})
	}
	return kept, nil
}

// name makes the texts of ids known.
func (d *dictionary) name(ctx context.Context, ids []int64) error {
	ids = slices.DeleteFunc(ids, func(id int64) bool {
		_, known := d.texts[id]
		return known
	})
	if len(ids) == 0 {
		return nil
	}
	rows, err := d.queries.ListRollupLabels(ctx, d.tx, d.siteID, ids)
	for _, row := range rows {
		d.know(labelText{label: row.Label, value: row.Value}, row.ID)
	}
	return err
}

func (d *dictionary) know(t labelText, id int64) { d.ids[t], d.texts[id] = id, t }
