package dbtest

import (
	"context"
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"github.com/waypost/waypost/db"
)

// poolSize is enough for a test: River's LISTEN keeps one connection for itself.
const poolSize = 4

// asTest makes a step called test the actor of what is changed over a connection.
const asTest = "&options=-c%20waypost.actor_type%3Dsystem%20-c%20waypost.actor_id%3Dtest"

// timeout bounds each thing done to a test's database, the server's start included.
const timeout = 2 * time.Minute

// URLs are the connection strings of one test's database.
type URLs struct {
	App   string // as the application's role: what DATABASE_URL is in production
	Owner string // as the owner, for migrations
	Admin string // as the superuser, to reach behind the application's back
	// Viewer is what WAYPOST_DATABASE_VIEWER_URL is in production.
	Viewer string
}

// New opens a migrated database that the test has to itself. Pool and database
// are gone when the test and its subtests are.
func New(t testing.TB) *db.DB {
	t.Helper()
	return open(t, NewURL(t).App)
}

// NewWithURL is New for tests that also need the connection strings.
func NewWithURL(t testing.TB) (*db.DB, URLs) {
	t.Helper()
	urls := NewURL(t)
	return open(t, urls.App), urls
}

// NewURL makes the database of New without connecting to it.
func NewURL(t testing.TB) URLs {
	t.Helper()
	c := shared(t)
	template, err := c.template(t.Context())
	if err != nil {
		t.Fatalf("dbtest: template database: %v", err)
	}
	return c.create(t, "template "+template+" strategy file_copy")
}

// Unmigrated makes an empty database that the test has to itself.
func Unmigrated(t testing.TB) URLs {
	t.Helper()
	return shared(t).create(t, unmigrated)
}

// unmigrated is what an empty database is made from.
const unmigrated = "template template0"

func open(t testing.TB, url string) *db.DB {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	d, err := db.Open(ctx, db.Options{URL: url, MaxConns: poolSize})
	if err != nil {
		t.Fatalf("dbtest: %v", err)
	}
	t.Cleanup(func() {
		closed := make(chan struct{})
		go func() { d.Close(); close(closed) }()
		select {
		case <-closed:
		case <-time.After(10 * time.Second):
			t.Errorf("dbtest: the test ended without giving all its connections back (rows not closed, a transaction left open)")
		}
	})
	return d
}

// create makes a database and drops it when the test ends, whoever is connected.
func (c *cluster) create(t testing.TB, from string) URLs {
	t.Helper()
	name := "test_" + strings.ToLower(rand.Text())
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	if _, err := c.admin.Exec(ctx, "create database "+name+" owner waypost_owner "+from); err != nil {
		t.Fatalf("dbtest: create database: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		if _, err := c.admin.Exec(ctx, "drop database "+name+" with (force)"); err != nil {
			t.Errorf("dbtest: drop database: %v", err)
		}
	})
	// CREATE DATABASE doesn't copy rights on the database itself.
	if from != unmigrated {
		if _, err := c.admin.Exec(ctx, "revoke temporary on database "+name+" from public"); err != nil {
			t.Fatalf("dbtest: rights of the database: %v", err)
		}
	}
	return URLs{App: c.server.AppURL(name), Viewer: c.server.ViewerURL(name), Owner: c.server.OwnerURL(name) + asTest, Admin: c.server.AdminURL(name) + asTest}
}
