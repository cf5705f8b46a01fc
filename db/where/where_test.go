package where_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/db/where"
)

func TestArgumentsAreNumberedBehindThoseOfTheStatement(t *testing.T) {
	t.Parallel()
	c := where.New("a")
	if c.SQL() != "" || c.And() != "" {
		t.Errorf("without conditions: %q, %q", c.SQL(), c.And())
	}
	c.Add("x = ?", 1)
	c.Add("deleted_at is null")
	other := c.Beside()
	other.Add("(y, z) < (?, ?)", 2, "?")
	c.Add("w = ?", 3)
	got := []string{c.SQL(), c.And(), other.SQL(), other.Arg(10)}
	want := []string{
		" where x = $2 and deleted_at is null and w = $5", " and x = $2 and deleted_at is null and w = $5", " where (y, z) < ($3, $4)", "$6",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]any{"a", 1, 2, "?", 3, 10}, c.Args()); diff != "" {
		t.Error(diff)
	}
}

func TestNewLeavesTheCallersArgumentsAlone(t *testing.T) {
	t.Parallel()
	args := []any{1, 2}
	where.New(args[:1]...).Add("x = ?", "changed")
	if args[1] != 2 {
		t.Errorf("%v", args)
	}
}

func TestAConditionWithAnotherNumberOfArgumentsPanics(t *testing.T) {
	t.Parallel()
	for condition, args := range map[string][]any{"x = ?": nil, "x": {1}, "x = ? or ?": {1}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%q with %v is taken", condition, args)
				}
			}()
			where.New().Add(condition, args...)
		}()
	}
}

func TestPatternsMatchTheTextItselfAndNothingElse(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t)
	like := func(value, pattern string) (matches bool) {
		if err := d.Pool().QueryRow(t.Context(), `select $1::text like $2`, value, pattern).Scan(&matches); err != nil {
			t.Fatal(err)
		}
		return matches
	}
	texts := []string{"", "a", "%", "_", `\`, `\%`, `a_b`, "axb", "50%", `c:\new`, "é", "?"}
	for _, s := range texts {
		for _, value := range texts {
			if got, want := like(value, where.Literal(s)), value == s; got != want {
				t.Errorf("%q like %q: %v", value, s, got)
			}
		}
		if !like("before"+s+"after", where.Containing(s)) {
			t.Errorf("%q is not found inside a text", s)
		}
	}
	if like("axb", where.Containing("a_b")) || like("500", where.Containing("50%")) {
		t.Error("a wildcard in what is searched for is one")
	}
}

// After some runs PostgreSQL plans for any value, unless the statement is new each time.
func TestAStatementWithFreshArgumentsGetsNoPlanForAllValues(t *testing.T) {
	t.Parallel()
	conn, err := pgx.Connect(t.Context(), dbtest.NewURL(t).Admin)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	sharedPlans := func(args func(*where.Clause) []any, sql string) (n int64) {
		t.Helper()
		for range 20 {
			c := where.New()
			c.Add("relname = ?", "users")
			rows, err := conn.Query(t.Context(), sql+c.SQL(), args(c)...)
			if err != nil {
				t.Fatal(err)
			}
			if found, err := pgx.CollectRows(rows, pgx.RowTo[string]); err != nil || len(found) != 1 {
				t.Fatal(found, err)
			}
		}
		if err := conn.QueryRow(t.Context(), `select coalesce(sum(generic_plans), 0) from pg_prepared_statements where statement like $1`, where.Literal(sql)+"%").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := sharedPlans((*where.Clause).Args, "select relkind::text from pg_class"); n == 0 {
		t.Error("no plan is shared without them: this test shows nothing")
	}
	if n := sharedPlans((*where.Clause).Fresh, "select relname::text from pg_class"); n > 0 {
		t.Errorf("%d runs had a plan for all values", n)
	}
}
