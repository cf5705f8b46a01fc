package session

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db/dbsqlc"
)

// Stored is a session as the database has it, and whose it is.
type Stored struct {
	Visitor Visitor
	Session
}

// The statements over whole sessions are no queries of sqlc, because they are made of
// properties.
var (
	saveSessions = saveStatement()
	listOfDay    = "select " + storedColumns("s") + ` from sessions s
where s.site_id = $1 and s.day = $2 and s.visitor = any ($3::bigint[])
order by s.visitor, s.started_at, s.id`
	// listOfVisitors is for visitor days whose heads the caller has locked.
	listOfVisitors = "select " + storedColumns("s") + ` from (
    select unnest($1::uuid[]) as site_id, unnest($2::date[]) as day, unnest($3::bigint[]) as visitor
) k join sessions s using (site_id, day, visitor)
order by s.site_id, s.day, s.visitor, s.started_at`
)

// fixedColumns are those of sessions that are no property, with the types of their arrays.
var fixedColumns = []struct{ name, kind string }{
	{"site_id", "uuid"}, {"day", "date"}, {"visitor", "bigint"}, {"id", "bigint"}, {"started_at", "timestamptz"}, {"last_at", "timestamptz"},
	{"pageviews", "int"}, {"events", "int"}, {"entry_at", "timestamptz"}, {"entry_path", "text"}, {"exit_at", "timestamptz"}, {"exit_path", "text"},
}

func storedColumns(of string) string {
	var names []string
	for _, c := range fixedColumns {
		names = append(names, of+"."+c.name)
	}
	for _, p := range properties {
		names = append(names, of+"."+p.column)
	}
	return strings.Join(names, ", ")
}

// saveStatement writes whole sessions, new ones and such as a late event changed, of one
// array for each column. A session without pageviews has neither entry nor exit.
func saveStatement() string {
	names, arrays, values := saveColumns(0)
	all := strings.Join(names, ", ")
	return "insert into sessions (" + all + ") select " + strings.Join(values, ", ") +
		" from unnest(" + strings.Join(arrays, ", ") + ") as n (" + all + ")" + replaceKnown(names)
}

// saveColumns are the columns of sessions, their arrays, of which the first is the
// parameter behind so many others, and the values made of them.
func saveColumns(before int) (names, arrays, values []string) {
	add := func(name, kind string) {
		value := "n." + name
		if strings.HasPrefix(name, "entry_") || strings.HasPrefix(name, "exit_") {
			value = "case when n.pageviews > 0 then " + value + " end"
		}
		names, values = append(names, name), append(values, value)
		arrays = append(arrays, fmt.Sprintf("$%d::%s[]", before+len(names), kind))
	}
	for _, c := range fixedColumns {
		add(c.name, c.kind)
	}
	for _, p := range properties {
		add(p.column, "text")
	}
	return names, arrays, values
}

// replaceKnown is for sessions that are there already.
func replaceKnown(names []string) string {
	var updates []string
	for _, name := range names {
		switch name {
		case "site_id", "day", "id", "visitor": // which session it is
		default:
			updates = append(updates, name+" = excluded."+name)
		}
	}
	return " on conflict (site_id, day, id) do update set " + strings.Join(updates, ", ")
}

// saves are whole sessions to be written, as columns.
type saves struct {
	keys
	ids               []int64
	starts, ends      []time.Time
	pageviews, events []int32
	entryAts, exitAts []time.Time
	entries, exits    []string
	properties        [][]string // by the place of each in properties
}

func (s *saves) add(key Visitor, of Session) {
	s.keys.add(key)
	s.ids = append(s.ids, of.ID)
	s.starts, s.ends = append(s.starts, of.Started), append(s.ends, of.Last)
	s.pageviews, s.events = append(s.pageviews, of.Pageviews), append(s.events, of.Events)
	s.entryAts, s.entries = append(s.entryAts, of.entryAt), append(s.entries, of.EntryPath)
	s.exitAts, s.exits = append(s.exitAts, of.exitAt), append(s.exits, of.ExitPath)
	if s.properties == nil {
		s.properties = make([][]string, len(properties))
	}
	for i, p := range properties {
		s.properties[i] = append(s.properties[i], *p.of(&of.Origin))
	}
}

// arguments are those of saveSessions.
func (s *saves) arguments() []any {
	args := []any{
		s.sites, s.days, s.visitors, s.ids, s.starts, s.ends,
		s.pageviews, s.events, s.entryAts, s.entries, s.exitAts, s.exits,
	}
	for _, texts := range s.properties {
		args = append(args, texts)
	}
	return args
}

// ListOfDay returns all sessions of some visitors of a day, in the order of their visitors
// and beginnings.
func ListOfDay(ctx context.Context, from dbsqlc.DBTX, siteID uuid.UUID, day time.Time, visitors []int64) ([]Stored, error) {
	return list(ctx, from, listOfDay, siteID, day, visitors)
}

func list(ctx context.Context, from dbsqlc.DBTX, sql string, args ...any) ([]Stored, error) {
	rows, err := from.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (Stored, error) {
		var s Stored
		var entryAt, exitAt *time.Time
		var entry, exit *string
		into := []any{
			&s.Visitor.Site, &s.Visitor.Day, &s.Visitor.Number, &s.ID, &s.Started, &s.Last, &s.Pageviews, &s.Events, &entryAt, &entry, &exitAt, &exit,
		}
		for _, p := range properties {
			into = append(into, p.of(&s.Origin))
		}
		err := row.Scan(into...)
		s.Visitor.Day, s.Started, s.Last = s.Visitor.Day.UTC(), s.Started.UTC(), s.Last.UTC()
		s.entryAt, s.EntryPath, s.exitAt, s.ExitPath = instant(entryAt), textOf(entry), instant(exitAt), textOf(exit)
		return s, err
	})
}
