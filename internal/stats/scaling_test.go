package stats

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbtest"
)

func texts(t *testing.T, d *db.DB, sql string) []string {
	t.Helper()
	rows, err := d.Pool().Query(t.Context(), sql)
	if err != nil {
		t.Fatal(err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// ofSites are the tables whose rows belong to a site, partitions apart.
const ofSites = `
with of_sites as (
    select c.oid, c.relname from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attname = 'site_id' and not a.attisdropped
    where c.relkind in ('r', 'p') and not c.relispartition and c.relnamespace = 'public'::regnamespace
) `

// The exceptions are argued in docs/scaling.md.
func TestEveryTableAndUniqueKeyLeadsWithItsSite(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t)
	keyless := texts(t, d, ofSites+`select relname::text from of_sites where not exists (select from pg_index i where i.indrelid = of_sites.oid and i.indisprimary)`)
	if len(keyless) > 0 {
		t.Errorf("tables without a primary key: %v", keyless)
	}
	others := texts(t, d, ofSites+`
select i.indexrelid::regclass::text from pg_index i join of_sites on of_sites.oid = i.indrelid
where i.indisunique and (select a.attname from pg_attribute a where a.attrelid = i.indrelid and a.attnum = i.indkey[0]) <> 'site_id'`)
	if len(others) > 0 {
		t.Errorf("unique keys that lead with something else: %v", others)
	}
	foreign := texts(t, d, ofSites+`
select k.conname::text from pg_constraint k join of_sites on of_sites.oid = k.conrelid
where k.contype = 'f' and k.confrelid <> 'sites'::regclass and k.confrelid not in (select oid from of_sites)`)
	if len(foreign) > 0 {
		t.Errorf("references to tables of other areas: %v", foreign)
	}
	// The one table that is keyed by the site's id under another name.
	if keys := texts(t, d, `select string_agg(a.attname, ',') from pg_index i join pg_attribute a on a.attrelid = i.indrelid and a.attnum = any (i.indkey)
where i.indrelid = 'sites'::regclass and i.indisunique group by i.indexrelid`); !slices.Equal(keys, []string{"id"}) {
		t.Errorf("unique keys of sites: %v", keys)
	}
}

// What grows has an end, or the page says that it has none.
func TestThePageSaysOfEveryTableWhatEndsItsRows(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/statistics.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "### Every table, and what ends its rows")
	var told []string
	for row := range strings.Lines(section) {
		if cells := strings.Split(row, "|"); len(cells) == 6 {
			for _, name := range regexp.MustCompile("`(\\w+)`").FindAllStringSubmatch(cells[1], -1) {
				told = append(told, name[1])
			}
		}
	}
	tables := texts(t, dbtest.New(t), ofSites+`select relname::text from of_sites`)
	slices.Sort(told)
	slices.Sort(tables)
	if diff := cmp.Diff(tables, told); diff != "" {
		t.Errorf("tables (-there are +the page has):\n%s", diff)
	}
}
