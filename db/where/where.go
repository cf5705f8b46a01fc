// Package where builds the WHERE clause of a statement whose filters are chosen at
// run time. Such a statement is written by hand and not in queries/: one for all
// combinations of filters would get one plan for all.
package where

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Clause is conditions that must all hold, and the arguments of the statement.
type Clause struct {
	conditions []string
	args       *[]any
}

// New returns a clause without conditions, for a statement that has args already: the
// next argument is numbered behind them.
func New(args ...any) *Clause {
	own := append([]any(nil), args...)
	return &Clause{args: &own}
}

// Beside returns a clause without conditions for another part of the same statement:
// the two number their arguments together.
func (c *Clause) Beside() *Clause { return &Clause{args: c.args} }

// Add adds a condition in which each ? stands for the next of args. A condition with
// an or needs parentheses. Add panics when there are more or fewer ? than args.
func (c *Clause) Add(condition string, args ...any) {
	parts := strings.Split(condition, "?")
	if len(parts) != len(args)+1 {
		panic(fmt.Sprintf("where: %d arguments for %q", len(args), condition))
	}
	var numbered strings.Builder
	for i, part := range parts[:len(args)] {
		numbered.WriteString(part)
		numbered.WriteString(c.Arg(args[i]))
	}
	c.conditions = append(c.conditions, numbered.String()+parts[len(args)])
}

// Arg adds an argument for another part of the statement, such as its limit, and
// returns what stands for it there, as $3.
func (c *Clause) Arg(value any) string {
	*c.args = append(*c.args, value)
	return "$" + strconv.Itoa(len(*c.args))
}

// SQL is the clause from " where" on, or "" without conditions.
func (c *Clause) SQL() string { return c.joined(" where ") }

// And is SQL behind other conditions: it begins with " and".
func (c *Clause) And() string { return c.joined(" and ") }

func (c *Clause) joined(start string) string {
	if len(c.conditions) == 0 {
		return ""
	}
	return start + strings.Join(c.conditions, " and ")
}

// Args are the arguments of the statement so far, in the order of their numbers.
func (c *Clause) Args() []any { return *c.args }

// Fresh is Args for a query that is planned for their values each time. A statement that is
// asked often would otherwise get one plan for all of them, after which what is rare is
// looked for as what is common is found: among all rows.
func (c *Clause) Fresh() []any { return append([]any{pgx.QueryExecModeCacheDescribe}, *c.args...) }

var meta = strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`)

// Literal is a pattern of LIKE that matches s alone.
func Literal(s string) string { return meta.Replace(s) }

// Containing is a pattern of LIKE that matches every text in which s occurs.
func Containing(s string) string { return "%" + Literal(s) + "%" }
