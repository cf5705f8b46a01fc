package dbview

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Table is a table of the service.
type Table struct {
	Name string
	// Rows is the planner's estimate; nil where the table was never analysed.
	Rows *int64
	// TableBytes and IndexBytes are sizes on disk, partitions included.
	TableBytes, IndexBytes int64
	// Shown of Columns are shown. A table of none can't be opened.
	Shown, Columns int
	// Partitions is 0 for a table without.
	Partitions int
}

// tables are those of the schema, with the columns that the list shows. All else here
// is asked of what this lets through.
const tables = `
select c.relname::text as name, stored.rows, stored.table_bytes, stored.index_bytes,
       (select count(*)::int from pg_attribute a where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and a.attname = any (v.shown)) as shown,
       (select count(*)::int from pg_attribute a where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped) as columns,
       stored.partitions
from pg_class c
left join visible_columns v on v.table_name = c.relname
cross join lateral (
    select case when bool_or(p.reltuples >= 0) then sum(greatest(p.reltuples, 0))::bigint end as rows,
           sum(pg_table_size(p.oid))::bigint as table_bytes, sum(pg_indexes_size(p.oid))::bigint as index_bytes, (count(*) - 1)::int as partitions
    from pg_class p
    where p.oid = c.oid or c.relkind = 'p' and p.oid in (select relid from pg_partition_tree(c.oid))
) stored
where c.relkind in ('r', 'p') and not c.relispartition
  and c.relnamespace = (select relnamespace from pg_class where oid = 'installation'::regclass)`

// Tables lists the tables by name.
func (s *Service) Tables(ctx context.Context) ([]Table, error) {
	var list []Table
	err := s.look(ctx, map[string]any{"what": "database view", "page": "tables"}, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, tables+` order by c.relname`)
		if err != nil {
			return err
		}
		list, err = pgx.CollectRows(rows, pgx.RowToStructByPos[Table])
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("dbview: tables: %w", err)
	}
	return list, nil
}

// Structure is what a table is made of.
type Structure struct {
	Table       Table
	Columns     []Column
	Indexes     []Index
	Constraints []Constraint
}

// Column is a column of a table.
type Column struct {
	Name, Type string
	// Required says that it can't be null.
	Required bool
	// Default is an expression, "" for none.
	Default string
	// Shown says that its values may be seen.
	Shown bool
	// Key is its place in the primary key, from 1; 0 for none.
	Key int
	// ToTable and ToColumn are what it refers to, "" for nothing.
	ToTable, ToColumn string
	Comment           string
}

// Index is an index, with how often it was used since the statistics were last reset.
type Index struct {
	Name, Definition string
	Bytes, Scans     int64
}

// Constraint is a rule that the database keeps.
type Constraint struct{ Name, Definition string }

// Structure says what a table is made of. It returns ErrTable.
func (s *Service) Structure(ctx context.Context, table string) (Structure, error) {
	if !isName(table) {
		return Structure{}, ErrTable
	}
	var found Structure
	err := s.look(ctx, map[string]any{"what": "database view", "page": "structure", "table": table}, func(ctx context.Context, tx pgx.Tx) error {
		var err error
		if found.Table, err = findTable(ctx, tx, table); err != nil {
			return err
		}
		if found.Columns, err = columnsOf(ctx, tx, table); err != nil {
			return err
		}
		if found.Indexes, err = collect[Index](ctx, tx, indexes, table); err != nil {
			return err
		}
		found.Constraints, err = collect[Constraint](ctx, tx, constraints, table)
		return err
	})
	if err != nil {
		return Structure{}, fmt.Errorf("dbview: structure: %w", err)
	}
	return found, nil
}

const columns = `
select a.attname::text, format_type(a.atttypid, a.atttypmod), a.attnotnull, coalesce(pg_get_expr(d.adbin, d.adrelid), ''),
       coalesce(a.attname = any (v.shown), false), coalesce(array_position(i.indkey::smallint[], a.attnum) + 1, 0), coalesce(f.to_table, ''), coalesce(f.to_column, ''),
       coalesce(col_description(a.attrelid, a.attnum), '')
from pg_attribute a
join pg_class c on c.oid = a.attrelid
left join visible_columns v on v.table_name = c.relname
left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
left join pg_index i on i.indrelid = a.attrelid and i.indisprimary
left join lateral (
    select t.relname::text as to_table, ta.attname::text as to_column
    from pg_constraint k join pg_class t on t.oid = k.confrelid join pg_attribute ta on ta.attrelid = t.oid and ta.attnum = k.confkey[1]
    where k.conrelid = a.attrelid and k.contype = 'f' and k.conkey = array[a.attnum]
    order by k.conname limit 1
) f on true
where a.attrelid = to_regclass(quote_ident($1)) and a.attnum > 0 and not a.attisdropped
order by a.attnum`

const indexes = `
select c.relname::text, pg_get_indexdef(i.indexrelid), coalesce(stored.bytes, 0)::bigint, coalesce(stored.scans, 0)::bigint
from pg_index i join pg_class c on c.oid = i.indexrelid
left join lateral (
    select sum(pg_relation_size(p.relid)) as bytes, sum(pg_stat_get_numscans(p.relid)) as scans
    from (select i.indexrelid as relid union select relid from pg_partition_tree(i.indexrelid) where c.relkind = 'I') p
) stored on true
where i.indrelid = to_regclass(quote_ident($1)) order by 1`

const constraints = `select conname::text, pg_get_constraintdef(oid) from pg_constraint where conrelid = to_regclass(quote_ident($1)) order by contype, 1`

// findTable returns ErrTable where nothing of it may be seen.
func findTable(ctx context.Context, tx pgx.Tx, name string) (Table, error) {
	rows, err := tx.Query(ctx, tables+` and c.relname = $1`, name)
	if err != nil {
		return Table{}, err
	}
	t, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[Table])
	if errors.Is(err, pgx.ErrNoRows) || err == nil && t.Shown == 0 {
		return Table{}, ErrTable
	}
	return t, err
}

// columnsOf are the columns of a table that findTable has found.
func columnsOf(ctx context.Context, tx pgx.Tx, table string) ([]Column, error) {
	return collect[Column](ctx, tx, columns, table)
}

func collect[T any](ctx context.Context, tx pgx.Tx, sql string, args ...any) ([]T, error) {
	rows, err := tx.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[T])
}
