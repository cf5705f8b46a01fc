package dbview_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/internal/dbview"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
)

// world is a service over a database of its own.
type world struct {
	*dbview.Service
	urls dbtest.URLs
}

func newWorld(t *testing.T, options ...func(*dbview.Options)) world {
	t.Helper()
	d, urls := dbtest.NewWithURL(t)
	o := dbview.Options{DB: d, ViewerURL: urls.Viewer}
	for _, change := range options {
		change(&o)
	}
	s, err := dbview.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return world{s, urls}
}

// asAdmin is a request of an ADMIN.
func asAdmin(t *testing.T) context.Context {
	return identity.NewContext(t.Context(), identity.Account(1, identity.Admin, "").Doing("view-database"))
}

// exec executes statements as the superuser.
func (w world) exec(t *testing.T, statements ...string) {
	t.Helper()
	conn := connect(t, w.urls.Admin)
	for _, sql := range statements {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
}

// list returns the only column of a query by the superuser.
func (w world) list(t *testing.T, sql string) []string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), w.urls.Admin)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	rows, err := conn.Query(t.Context(), sql)
	if err != nil {
		t.Fatal(err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// notes are those of the audit log, sealed or not.
func (w world) notes(t *testing.T) []string {
	t.Helper()
	return w.list(t, `select coalesce(action, '') || ' ' || changes from audit_pending where op = 'note' order by id`)
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// sqlState is PostgreSQL's code of an error, "" for none.
func sqlState(err error) string {
	pe, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		return ""
	}
	return pe.Code
}

// code is a fault's code, "" for no error.
func code(err error) string {
	f, ok := errors.AsType[*fault.Error](err)
	switch {
	case err == nil:
		return ""
	case !ok:
		return "no fault: " + err.Error()
	}
	return f.Code
}

func ask(t *testing.T, w world, sql string) (dbview.Answer, error) {
	t.Helper()
	return w.Query(asAdmin(t), dbview.Question{SQL: sql})
}

// texts are an answer's values, with null as "null".
func texts(values [][]*string) string {
	var lines []string
	for _, row := range values {
		var cells []string
		for _, v := range row {
			if v == nil {
				cells = append(cells, "null")
				continue
			}
			cells = append(cells, *v)
		}
		lines = append(lines, strings.Join(cells, "|"))
	}
	return strings.Join(lines, "\n")
}

// waitForNoConsole waits until the server has noticed that the console's connections
// are closed.
func (w world) waitForNoConsole(t *testing.T) {
	t.Helper()
	for left := []string{""}; len(left) > 0; {
		if t.Context().Err() != nil {
			t.Fatalf("still there: %q", left)
		}
		left = w.list(t, `select query from pg_stat_activity where usename = 'waypost_viewer' and datname = current_database()`)
	}
}
