package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
)

// lists gives cmd the flag --json.
func lists(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().Bool("json", false, "print a JSON array of objects, times in RFC 3339, null for what there is not")
	return cmd
}

// listing prints rows under columns: as a table for people, or with --json as an array
// of objects whose members are named after the columns.
type listing struct {
	cmd     *cobra.Command
	columns []string // in lower case, words separated by blanks
	rows    [][]any
}

func newListing(cmd *cobra.Command, columns ...string) *listing {
	return &listing{cmd: cmd, columns: columns}
}

// add adds a row with a value for each column; a nil *time.Time is one that there is not.
func (l *listing) add(values ...any) { l.rows = append(l.rows, values) }

func (l *listing) print() error {
	if asJSON, err := l.cmd.Flags().GetBool("json"); err == nil && asJSON {
		return l.printJSON()
	}
	w := tabwriter.NewWriter(l.cmd.OutOrStdout(), 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, strings.ToUpper(strings.Join(l.columns, "\t")))
	for _, row := range l.rows {
		cells := make([]string, len(row))
		for i, v := range row {
			cells[i] = cell(v)
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	return w.Flush()
}

func (l *listing) printJSON() error {
	objects := make([]map[string]any, 0, len(l.rows))
	for _, row := range l.rows {
		o := map[string]any{}
		for i, v := range row {
			o[strings.ReplaceAll(l.columns[i], " ", "_")] = v
		}
		objects = append(objects, o)
	}
	e := json.NewEncoder(l.cmd.OutOrStdout())
	e.SetIndent("", "  ")
	return e.Encode(objects)
}

func cell(v any) string {
	switch v := v.(type) {
	case time.Time:
		return v.UTC().Format(time.RFC3339)
	case *time.Time:
		if v == nil {
			return "-"
		}
		return v.UTC().Format(time.RFC3339)
	}
	return fmt.Sprint(v)
}
