package db

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// settings makes what every statement relies on part of the connection. A pooler knows
// some of these only: with one, the rest must be the database user's own settings.
func (o Options) settings(c *pgx.ConnConfig) {
	params := c.RuntimeParams
	params["timezone"] = "UTC"
	if params["application_name"] == "" {
		params["application_name"] = "waypost"
	}
	if !o.Pooled {
		params["role"] = AppRole
		// Queries over many partitions look costly enough to be compiled, which takes
		// longer (measured: 420 ms) than they do (4 ms).
		params["jit"] = "off"
		return
	}
	// A prepared statement stays behind on another connection of the pooler's. PgBouncer
	// from 1.21 on can keep track of them, which is for the operator to say.
	if c.DefaultQueryExecMode == pgx.QueryExecModeCacheStatement && !strings.Contains(o.URL, "default_query_exec_mode") {
		c.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	}
}

// Poolers are in docs/operations.md, which errors about them name.
const seePoolers = "(docs/operations.md, Behind a connection pooler)"

// explainPooler says what to do about a pooler that nobody told Waypost of.
func explainPooler(err error) error {
	if pe, ok := errors.AsType[*pgconn.PgError](err); ok && strings.Contains(pe.Message, "unsupported startup parameter") {
		return fmt.Errorf("DATABASE_URL leads to a connection pooler, which takes no settings for a session: set WAYPOST_DATABASE_POOLED=true %s: %w", seePoolers, err)
	}
	return err
}

// explainOwnersPooler is explainPooler for migrations, which a pooler can't serve.
func explainOwnersPooler(err error) error {
	if pe, ok := errors.AsType[*pgconn.PgError](err); ok && strings.Contains(pe.Message, "unsupported startup parameter") {
		return fmt.Errorf("migrations need a session of their own, and this is a connection pooler: set WAYPOST_DATABASE_OWNER_URL, or WAYPOST_DATABASE_DIRECT_URL, to lead past it %s: %w", seePoolers, err)
	}
	return err
}

// checkSession returns an error when a session isn't what every statement relies on, and
// otherwise what of it an operator should know.
func (d *DB) checkSession(ctx context.Context, conn *pgx.Conn) (warnings []string, err error) {
	var role, user, zone, jit, check string
	var pid uint32
	err = conn.QueryRow(ctx, `select current_user, session_user, current_setting('TimeZone'), current_setting('jit'), current_setting('client_connection_check_interval'), pg_backend_pid()`).Scan(&role, &user, &zone, &jit, &check, &pid)
	if err != nil {
		return nil, fmt.Errorf("db: cannot connect: %w", err)
	}
	user = pgx.Identifier{user}.Sanitize()
	if role != AppRole {
		return nil, fmt.Errorf("db: connections work as %q instead of %s, as through a pooler that drops settings: let DATABASE_URL sign in as %[2]s itself, or let an administrator run `ALTER ROLE %s SET role = '%[2]s';`, and reconnect the pooler %[4]s", role, AppRole, user, seePoolers)
	}
	if zone != "UTC" {
		return nil, fmt.Errorf("db: connections have the time zone %q: let an administrator run `ALTER ROLE %s SET timezone = 'UTC';`, and reconnect the pooler %s", zone, user, seePoolers)
	}
	if jit != "off" {
		warnings = append(warnings, "the database compiles queries for the service's user, which makes statistics slow: let an administrator run ALTER ROLE "+user+" SET jit = off; and reconnect the pooler "+seePoolers)
	}
	if d.pooled && check == "0" {
		warnings = append(warnings, "statistics go on in the database for up to WAYPOST_STATS_TIMEOUT when nobody waits for them any more: let an administrator run ALTER ROLE "+user+" SET client_connection_check_interval = '1s'; and reconnect the pooler "+seePoolers)
	}
	if !d.pooled && pid != conn.PgConn().PID() {
		warnings = append(warnings, "something between here and the database numbers connections anew: if that is a pooler, set WAYPOST_DATABASE_POOLED=true "+seePoolers)
	}
	return warnings, nil
}

// warn logs each of warnings once.
func warn(ctx context.Context, logger *slog.Logger, warnings []string) {
	for _, w := range slices.Compact(slices.Sorted(slices.Values(warnings))) {
		logger.WarnContext(ctx, w)
	}
}
