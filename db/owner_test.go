package db_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbtest"
)

func TestWhoeverCanTakeTheRoleOffIsKnown(t *testing.T) {
	t.Parallel()
	urls := dbtest.NewURL(t)
	for what, c := range map[string]struct {
		url  string
		owns bool
	}{
		"the application's user": {urls.App, false}, "the owner": {urls.Owner, true}, "a superuser": {urls.Admin, true},
	} {
		d, err := db.Open(t.Context(), db.Options{URL: c.url, MaxConns: 1})
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		config, err := pgx.ParseConfig(c.url)
		if err != nil {
			t.Fatal(err)
		}
		if user, owns, err := d.OwnsTables(t.Context()); err != nil || owns != c.owns || user != config.User {
			t.Errorf("%s: %q owns the tables: %v, %v", what, user, owns, err)
		}
		d.Close()
	}
}
