package db

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/text"
)

// ErrUnknownOutcome says that a COMMIT was sent, that its answer was lost or doesn't
// say what became of it, and that asking didn't tell either. The work may be durable,
// so nobody may do it again as if it were new. errors.Is can't tell it from
// ErrUnavailable, since their kinds and codes are the same; IsUnknownOutcome can.
var ErrUnknownOutcome = fault.New(fault.Unavailable, fault.CodeUnavailable, "The service cannot tell yet whether this was stored. Try again shortly.").After(2 * time.Second)

// ErrNotCommitted says that a COMMIT was sent and that nothing of it is durable. As
// with ErrUnavailable, a client may send its request again.
var ErrNotCommitted = fault.New(fault.Unavailable, fault.CodeUnavailable, "Nothing of this was stored. Try again shortly.").After(2 * time.Second)

// IsUnknownOutcome reports whether err is an ErrUnknownOutcome.
func IsUnknownOutcome(err error) bool {
	_, ok := errors.AsType[*unknownOutcome](err)
	return ok
}

// unknownOutcome is the cause of every ErrUnknownOutcome.
type unknownOutcome struct{ err error }

func (u *unknownOutcome) Error() string {
	return "a transaction's outcome is unknown: " + u.err.Error()
}

func (u *unknownOutcome) Unwrap() error { return u.err }

// settleWithin bounds the wait for what became of one transaction.
const settleWithin = 2 * time.Second

// transaction is what PostgreSQL can be asked about one by.
type transaction struct {
	// id is its xid8, drawn before COMMIT; "" where that never arrived.
	id string
	// history is what id belongs to. A server promoted in another's place, or one that
	// recovered from a crash, may lack the transaction and give its id away again.
	history string
	// sharded says that parts of it may be another server's, so that PostgreSQL may call it
	// aborted here though they are committed there.
	sharded bool
	// readOnly says that nothing can come of it.
	readOnly bool
	// undecided says that its COMMIT was sent, and that isUndecided.
	undecided bool
}

// open is the first statement of a transaction that writes. It tells the triggers who
// acts, and draws the transaction's id, which its first write would do anyway.
const open = `select pg_current_xact_id()::text, set_config('waypost.actor_type', $1, true) || set_config('waypost.actor_id', $2, true)
	|| set_config('waypost.session_id', $3, true) || set_config('waypost.ip', $4, true) || set_config('waypost.request_id', $5, true)
	|| set_config('waypost.action', $6, true)`

// actor are the arguments of open. What no PostgreSQL text can hold is left out.
func actor(p identity.Principal) []any {
	address := ""
	if p.Address.IsValid() {
		address = p.Address.String()
	}
	kind, id := p.Actor()
	args := make([]any, 0, 6)
	for _, value := range [...]string{kind, id, p.SessionID, address, p.RequestID, p.Action} {
		args = append(args, text.MakeStorable(value, ""))
	}
	return args
}

// opened reads what open answers on conn.
func opened(conn *pgxpool.Conn, answer pgx.Row) (transaction, error) {
	t := transaction{sharded: isSharded(conn.Conn())}
	t.history, _ = conn.Conn().PgConn().CustomData()[historyKey].(string)
	return t, answer.Scan(&t.id, nil)
}

const historyKey = "waypost.history"

// history names the timeline, and the time since when statistics are kept: PostgreSQL
// gives them up when it recovers from a crash, and only then by itself, so that it
// differs before and after. Somebody may reset these as well; then nothing is told that
// could be.
const history = `left(pg_walfile_name(pg_current_wal_lsn()), 8) || '/' || (select stats_reset from pg_stat_archiver)::text`

// noteHistory remembers which history a new connection writes; no connection outlives a
// crash. A server that doesn't tell (a standby) can't be asked about transactions later.
// It returns whether the database has Citus, in the same round trip.
func noteHistory(ctx context.Context, conn *pgx.Conn) bool {
	if row := ask(ctx, conn, isClustered+", "+history); row != nil {
		conn.PgConn().CustomData()[historyKey] = string(row[1])
		return string(row[0]) == "t"
	}
	row := ask(ctx, conn, isClustered)
	return row != nil && string(row[0]) == "t"
}

// ask returns the row of a list of expressions, nil for an error.
func ask(ctx context.Context, conn *pgx.Conn, list string) [][]byte {
	results, err := conn.PgConn().Exec(ctx, "select "+list).ReadAll()
	if err != nil || len(results) != 1 || len(results[0].Rows) != 1 {
		return nil
	}
	return results[0].Rows[0]
}

// isUndecided reports whether err, met when a COMMIT was sent, leaves open what became
// of it: the connection ended, or the answer is of a class that a server or a proxy
// gives after a COMMIT was applied as well. Any other answer is a rollback's.
func isUndecided(err error) bool {
	if pe, ok := errors.AsType[*pgconn.PgError](err); ok {
		return strings.HasPrefix(pe.Code, "XX") || strings.HasPrefix(pe.Code, "08") || strings.HasPrefix(pe.Code, "57P") ||
			pe.SeverityUnlocalized == "FATAL" || pe.SeverityUnlocalized == "PANIC"
	}
	if _, unsent := errors.AsType[pgx.ErrPreprocessingBatch](err); unsent || err == nil {
		return false
	}
	if errors.Is(err, pgconn.ErrConnClosed) {
		return true // pgx says so also of a connection that ended after the COMMIT
	}
	return !errors.Is(err, pgx.ErrTxCommitRollback) && !errors.Is(err, pgx.ErrTxClosed) && !pgconn.SafeToRetry(err)
}

// settle asks over another connection what became of t, whose COMMIT met cause. It
// returns nil when t is committed, ErrNotCommitted when it was rolled back, and
// ErrUnknownOutcome when it doesn't learn that in time.
func (d *DB) settle(ctx context.Context, t transaction, cause error) error {
	if t.readOnly {
		return nil // what it read it has read
	}
	status := d.statusOf(ctx, t)
	d.logger.WarnContext(ctx, "a COMMIT got no answer, or an error that does not tell its outcome", "outcome", status, "error", cause)
	switch status {
	case committed:
		return nil
	case aborted:
		if t.sharded { // a shard's server commits before this one
			return ErrUnknownOutcome.Because(&unknownOutcome{cause})
		}
		return ErrNotCommitted.Because(cause)
	default:
		return ErrUnknownOutcome.Because(&unknownOutcome{cause})
	}
}

// What pg_xact_status answers, and that nobody knows.
const (
	committed  = "committed"
	aborted    = "aborted"
	inProgress = "in progress"
	unknown    = "unknown"
)

// statusOf waits until t is over, also when ctx is, but no longer than settleWithin.
func (d *DB) statusOf(ctx context.Context, t transaction) string {
	if t.id == "" || t.history == "" {
		return unknown
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleWithin)
	defer cancel()
	for wait := 2 * time.Millisecond; ; wait = min(2*wait, 100*time.Millisecond) {
		status, err := d.askStatus(ctx, t)
		if err != nil && fault.KindOf(Translate(err)) != fault.Unavailable || err == nil && status != inProgress {
			return status
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return unknown
		}
	}
}

func (d *DB) askStatus(ctx context.Context, t transaction) (string, error) {
	var status *string // nil for one so old that it is forgotten
	var now *string
	err := d.Direct().QueryRow(ctx, `select pg_xact_status($1::text::xid8), `+history, t.id).Scan(&status, &now)
	if err == nil && now != nil && *now != t.history {
		// A pooler keeps our connections over a crash of the database: all of them have the
		// history from before it, and are made anew.
		d.pool.Reset()
	}
	if err != nil || status == nil || now == nil || *now != t.history {
		return unknown, err
	}
	return *status, nil
}
