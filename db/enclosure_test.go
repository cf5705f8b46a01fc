package db_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/internal/identity"
)

// things prepares a table and says what is durable in it.
func things(t *testing.T) (d *db.DB, durable func() int) {
	t.Helper()
	d, urls := dbtest.NewWithURL(t)
	owner, err := pgx.Connect(t.Context(), urls.Owner)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = owner.Close(context.Background()) })
	if _, err := owner.Exec(t.Context(), "create table things (id int primary key); grant all on things to waypost_app"); err != nil {
		t.Fatal(err)
	}
	return d, func() int {
		var n int
		if err := owner.QueryRow(t.Context(), "select count(*) from things").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
}

func add(d *db.DB, ctx context.Context, id int) error {
	return d.InTx(ctx, identity.System("test"), func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "insert into things values ($1)", id)
		return err
	})
}

func TestWhatIsEnclosedIsDurableTogetherOrNotAtAll(t *testing.T) {
	t.Parallel()
	d, durable := things(t)
	for name, c := range map[string]struct {
		end  func(t *testing.T, e *db.Enclosure) error
		want int
	}{
		"kept":   {func(t *testing.T, e *db.Enclosure) error { return e.Commit(t.Context(), nothing) }, 4},
		"undone": {func(_ *testing.T, e *db.Enclosure) error { e.Close(); return nil }, 0},
		"failed at its end": {func(t *testing.T, e *db.Enclosure) error {
			err := e.Commit(t.Context(), func(context.Context, pgx.Tx) error { return errors.New("no") })
			if err == nil {
				return errors.New("committed")
			}
			return nil
		}, 0},
	} {
		e := d.Enclose(identity.System("test"), func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "insert into things values (0)")
			return err
		})
		ctx := e.Context(t.Context())
		if err := add(d, ctx, 1); err != nil {
			t.Fatal(err)
		}
		if err := add(d, ctx, 1); err == nil {
			t.Fatalf("%s: the same twice", name)
		}
		if _, err := d.Single(identity.System("test")).Exec(ctx, "insert into things values (2)"); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Single(identity.System("test")).Exec(ctx, "insert into things values (2)"); err == nil {
			t.Fatalf("%s: the same twice", name)
		}
		var id, seen int
		if err := d.Single(identity.System("test")).QueryRow(ctx, "insert into things values (3) returning id").Scan(&id); err != nil || id != 3 {
			t.Fatal(id, err)
		}
		if err := d.Direct().QueryRow(ctx, "select count(*) from things").Scan(&seen); err != nil || seen != 4 || durable() != 0 {
			t.Fatalf("%s: %d seen, %d durable, %v", name, seen, durable(), err)
		}
		if err := c.end(t, e); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		e.Close()
		if got := durable(); got != c.want {
			t.Errorf("%s: %d durable, want %d", name, got, c.want)
		}
		if taken := d.Usage().Taken; taken != 0 {
			t.Errorf("%s: %d connections are still taken", name, taken)
		}
		if _, err := d.Single(identity.System("test")).Exec(ctx, "delete from things"); err != nil { // which is over
			t.Fatal(err)
		}
		if got := durable(); got != 0 {
			t.Errorf("%s: what is over still encloses", name)
		}
	}
}

func nothing(context.Context, pgx.Tx) error { return nil }

func TestAnEnclosureThatMayNotBeginLetsNothingHappen(t *testing.T) {
	t.Parallel()
	d, durable := things(t)
	refused := errors.New("refused")
	e := d.Enclose(identity.System("test"), func(context.Context, pgx.Tx) error { return refused })
	defer e.Close()
	ctx := e.Context(t.Context())
	if err := add(d, ctx, 1); !errors.Is(err, refused) {
		t.Error(err)
	}
	if err := e.Commit(ctx, nothing); !errors.Is(err, refused) {
		t.Error(err)
	}
	if durable() != 0 || d.Usage().Taken != 0 {
		t.Errorf("%d durable, %d taken", durable(), d.Usage().Taken)
	}
}

func TestAnEnclosureHoldsNoConnectionBeforeItsFirstTransaction(t *testing.T) {
	t.Parallel()
	d, _ := things(t)
	e := d.Enclose(identity.System("test"), nothing)
	defer e.Close()
	var n int
	if err := d.Direct().QueryRow(e.Context(t.Context()), "select 1").Scan(&n); err != nil {
		t.Fatal(err)
	}
	if taken := d.Usage().Taken; taken != 0 {
		t.Errorf("%d", taken)
	}
}
