package stats

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"slices"

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
	queries *dbsqlc.Queries
	tx      pgx.Tx
	siteID  uuid.UUID
	ids     map[labelText]int64
	texts   map[int64]labelText
	unknown int64 // the last id given to a text that the dictionary lacks; negative
}

func newDictionary(queries *dbsqlc.Queries, tx pgx.Tx, siteID uuid.UUID) *dictionary {
	return &dictionary{queries: queries, tx: tx, siteID: siteID, ids: make(map[labelText]int64), texts: make(map[int64]labelText)}
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

// intern makes ids of texts known and adds those that are missing to the
// dictionary, in the order of their digests. The caller holds the site's lock.
func (d *dictionary) intern(ctx context.Context, texts []labelText) error {
	missing, err := d.load(ctx, texts)
	if err != nil || len(missing) == 0 {
		return err
	}
	last, err := d.queries.FindLastRollupLabel(ctx, d.tx, d.siteID)
	if err != nil {
		return err
	}
	p := dbsqlc.InsertRollupLabelsParams{SiteID: d.siteID}
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
		delete(asked, digest)
	}
	return asked, nil
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
