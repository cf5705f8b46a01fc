package dbview

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/text"
)

// The console executes what an operator writes. What it can't do is held by rights, not
// by reading the statement: the connection signs in as waypost_viewer, who may select
// what visible_columns shows and nothing else. Before each use the connection is asked
// whether that is still so (harmless). Around it are a transaction that is READ ONLY and
// rolled back, the extended protocol, which takes one statement, limits of time and
// size, and a connection that is closed afterwards, with all that a session can keep.
// The one thing that any role may do, whatever its rights, is to call PostgreSQL's own
// functions that take locks, notify, write messages or end other connections: statements
// that name one are refused (forbidden).

// Explain says what is wanted of a statement.
type Explain string

// What can be wanted.
const (
	Result  Explain = ""
	Plan    Explain = "plan"    // how it would be executed
	Analyze Explain = "analyze" // how it was executed, which it is
)

// Question is what is asked at the console.
type Question struct {
	SQL     string
	Explain Explain
}

// Answer is what comes back.
type Answer struct {
	Columns []AnswerColumn
	// Values are texts as PostgreSQL writes them, nil for null.
	Values [][]*string
	// Cut says why there is no more, "" where this is all.
	Cut  string
	Took time.Duration
}

// AnswerColumn is a column of an answer.
type AnswerColumn struct {
	Name, Type string
	// Number says that its values are numbers.
	Number bool
}

// Faults of the console.
var (
	// ErrOff says that there is no connection string for the console.
	ErrOff = fault.New(fault.Conflict, "console_off", "The console is off, because this instance has no WAYPOST_DATABASE_VIEWER_URL.")
	// ErrNoRows says that a statement returns nothing, so that it was not executed.
	ErrNoRows = fault.New(fault.Invalid, "query_refused", "The console executes what returns rows: SELECT, VALUES, TABLE, WITH, SHOW. This statement was not executed.")
)

// maxQuery is the longest statement in bytes; noteBytes is how much of it fits into a
// value of a note, which the audit log doesn't shorten.
const (
	maxQuery  = 10_000
	noteBytes = 4000
)

func (q Question) validate() error {
	switch {
	case text.Blank(q.SQL):
		return fault.Validation(map[string]string{"query": "Write a statement."})
	case !text.Storable(q.SQL) || len(q.SQL) > maxQuery:
		return fault.Validation(map[string]string{"query": "Write at most 10,000 bytes of UTF-8, without U+0000."})
	case q.Explain != Result && q.Explain != Plan && q.Explain != Analyze:
		return fault.Validation(map[string]string{"explain": "Choose one of the buttons."})
	}
	return nil
}

// noted is the note of a question: its text, in as many values as it needs.
func (q Question) noted() map[string]any {
	what := map[string]any{"what": "console query"}
	if q.Explain != Result {
		what["explain"] = string(q.Explain)
	}
	name, rest := "query", q.SQL
	for part := 2; len(rest) > noteBytes; part++ {
		end := noteBytes
		for rest[end]&0xC0 == 0x80 { // within a character
			end--
		}
		what[name], rest = rest[:end], rest[end:]
		name = fmt.Sprintf("query_%d", part)
	}
	what[name] = rest
	return what
}

// sql is the statement as it is sent.
func (q Question) sql() string {
	switch q.Explain {
	case Plan:
		return "explain (costs, verbose)\n" + q.SQL
	case Analyze:
		return "explain (analyze, buffers)\n" + q.SQL
	}
	return q.SQL
}

// Query answers a question. It returns a validation fault, ErrOff, ErrNoRows,
// ErrExpensive, db.ErrBusy, faults of code console_rights, console_sign_in and query_refused, and one of
// code query_failed with what PostgreSQL says about the statement.
func (s *Service) Query(ctx context.Context, q Question) (Answer, error) {
	if err := q.validate(); err != nil {
		return Answer{}, err
	}
	if s.o.ViewerURL == "" {
		return Answer{}, ErrOff
	}
	leave, err := s.console.take(ctx)
	if err != nil {
		return Answer{}, err
	}
	defer leave()
	if err := s.note(ctx, q.noted()); err != nil {
		return Answer{}, err
	}
	conn, err := s.connect(ctx)
	if err != nil {
		return Answer{}, err
	}
	defer discard(ctx, conn)
	if err := s.begin(ctx, conn); err != nil {
		return Answer{}, err
	}
	if err := refuse(ctx, conn, q.SQL); err != nil {
		return Answer{}, err
	}
	return s.execute(ctx, conn, q)
}

// connect signs in at the console's role.
func (s *Service) connect(ctx context.Context) (*pgconn.PgConn, error) {
	cfg, err := pgconn.ParseConfig(s.o.ViewerURL)
	if err != nil {
		return nil, fmt.Errorf("dbview: WAYPOST_DATABASE_VIEWER_URL: %w", err)
	}
	cfg.RuntimeParams["application_name"] = "waypost console"
	// A single value can be a gigabyte large: it is not taken into memory.
	cfg.BuildFrontend = func(r io.Reader, w io.Writer) *pgproto3.Frontend {
		f := pgproto3.NewFrontend(r, w)
		f.SetMaxBodyLen(s.o.MaxBytes)
		return f
	}
	cfg.BuildContextWatcherHandler = func(c *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.CancelRequestContextWatcherHandler{Conn: c, DeadlineDelay: cancelTime}
	}
	limited, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	conn, err := pgconn.ConnectConfig(limited, cfg)
	if err == nil || ctx.Err() != nil {
		return conn, db.Translate(err)
	}
	if pe, ok := errors.AsType[*pgconn.PgError](err); ok && (strings.HasPrefix(pe.Code, "28") || pe.Code == "3D000" || pe.Code == "42501") { // the role, the password, the database, CONNECT
		return nil, errSignIn(pe.Message).Because(err)
	}
	return nil, db.Translate(err)
}

const (
	// connectTime bounds the sign-in, cancelTime how long a statement may take to end
	// after it was told to.
	connectTime = 3 * time.Second
	cancelTime  = 2 * time.Second
)

// begin opens the transaction and makes sure that the connection can do no harm. Asking
// that takes the transaction's snapshot, after which it can't be made to write.
func (s *Service) begin(ctx context.Context, conn *pgconn.PgConn) error {
	limited, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	_, err := conn.Exec(limited, fmt.Sprintf(`begin transaction isolation level read committed read only;
set local statement_timeout = %d;
set local lock_timeout = 1000;
set local idle_in_transaction_session_timeout = 15000;
set local max_parallel_workers_per_gather = 0;
set local work_mem = '16MB';
set local standard_conforming_strings = on;
set local timezone = 'UTC';
set local client_encoding = 'UTF8';
set local jit = off`, s.o.Timeout.Milliseconds())).ReadAll()
	if err != nil {
		return fmt.Errorf("dbview: begin: %w", db.Translate(err))
	}
	wrong, err := texts(limited, conn, harmless)
	if err != nil {
		return fmt.Errorf("dbview: rights of the console: %w", db.Translate(err))
	}
	if len(wrong) > 0 {
		return errRights("The console is off, because its role could do more than look: it " + strings.Join(wrong, "; it ") + ".")
	}
	return nil
}

func errRights(message string) *fault.Error {
	return fault.New(fault.Conflict, "console_rights", message)
}

// codeSignIn is the code of errSignIn.
const codeSignIn = "console_sign_in"

func errSignIn(reason string) *fault.Error {
	return fault.Newf(fault.Conflict, codeSignIn, "The console can't sign in: %s.", reason)
}

// texts returns the only column of a query whose arguments are texts.
func texts(ctx context.Context, conn *pgconn.PgConn, sql string, args ...string) ([]string, error) {
	var values [][]byte
	for _, a := range args {
		values = append(values, []byte(a))
	}
	result := conn.ExecParams(ctx, sql, values, nil, nil, nil).Read()
	var list []string
	for _, row := range result.Rows {
		list = append(list, string(row[0]))
	}
	return list, result.Err
}

// execute sends the statement and reads what comes back, up to the limits.
func (s *Service) execute(ctx context.Context, conn *pgconn.PgConn, q Question) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	start := time.Now()
	described, err := conn.Prepare(ctx, "", q.sql(), nil)
	switch {
	case err != nil:
		return Answer{}, failed(err, q)
	case len(described.ParamOIDs) > 0:
		return Answer{}, fault.New(fault.Invalid, "query_refused", "The console gives no values to parameters such as $1. Write them into the statement.")
	case len(described.Fields) == 0:
		return Answer{}, ErrNoRows
	}
	a := Answer{Columns: columnsOfAnswer(described.Fields)}
	result := conn.ExecPrepared(ctx, "", nil, nil, nil)
	err = s.read(result, &a)
	a.Took = time.Since(start)
	if a.Cut != "" {
		cancel() // nobody waits for the rest
		_, _ = result.Close()
		return a, nil
	}
	if _, closed := result.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return Answer{}, failed(err, q)
	}
	return a, nil
}

// read reads rows until there are none or they are too many.
func (s *Service) read(result *pgconn.ResultReader, a *Answer) error {
	size := 0
	for result.NextRow() {
		row := make([]*string, len(a.Columns))
		for i, value := range result.Values() {
			if value == nil {
				continue
			}
			v := string(value)
			row[i], size = &v, size+len(v)
		}
		switch {
		case len(a.Values) == s.o.MaxRows:
			a.Cut = fmt.Sprintf("These are the first %d rows. There are more.", s.o.MaxRows)
			return nil
		case size > s.o.MaxBytes:
			a.Cut = fmt.Sprintf("These rows are almost %d MiB, which is all that is shown. There are more.", s.o.MaxBytes>>20)
			return nil
		}
		a.Values = append(a.Values, row)
	}
	return nil
}

func columnsOfAnswer(fields []pgconn.FieldDescription) []AnswerColumn {
	types := pgtype.NewMap()
	var list []AnswerColumn
	for _, f := range fields {
		c := AnswerColumn{Name: f.Name}
		if t, ok := types.TypeForOID(f.DataTypeOID); ok {
			c.Type = t.Name
		}
		switch f.DataTypeOID {
		case pgtype.Int2OID, pgtype.Int4OID, pgtype.Int8OID, pgtype.Float4OID, pgtype.Float8OID, pgtype.NumericOID:
			c.Number = true
		}
		list = append(list, c)
	}
	return list
}

// failed makes a fault of what PostgreSQL says about a statement.
func failed(err error, q Question) error {
	if _, ok := errors.AsType[*pgproto3.ExceededMaxBodyLenErr](err); ok {
		return fault.New(fault.Invalid, "query_too_expensive", "A single row is larger than 8 MiB. Select less of it, for example by left(column, 1000).").Because(err)
	}
	pe, ok := errors.AsType[*pgconn.PgError](err)
	switch {
	case !ok && errors.Is(err, context.DeadlineExceeded), ok && pe.Code == cancelled, ok && pe.Code == "55P03": // also of a lock
		return ErrExpensive.Because(err)
	case !ok, strings.HasPrefix(pe.Code, "57P"), strings.HasPrefix(pe.Code, "08"):
		return db.Translate(err)
	}
	message := pe.Message
	if pe.Code == "42501" {
		message += ". What may hold secrets is hidden from the console; the structure of a table says which columns those are"
	}
	if at := int(pe.Position) - (len(q.sql()) - len(q.SQL)); pe.Position > 0 && at > 0 {
		message += fmt.Sprintf(" (at character %d)", at)
	}
	if pe.Detail != "" {
		message += ". " + pe.Detail
	}
	if pe.Hint != "" {
		message += ". Hint: " + pe.Hint
	}
	return fault.New(fault.Invalid, "query_failed", "PostgreSQL: "+message).Because(err)
}

// discard ends the transaction and whatever the session kept, and closes the
// connection. The session's end does the same; a pooler in between would keep it.
func discard(ctx context.Context, conn *pgconn.PgConn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelTime)
	defer cancel()
	if !conn.IsClosed() {
		_, _ = conn.Exec(ctx, "rollback").ReadAll()
		_, _ = conn.Exec(ctx, "discard all").ReadAll()
	}
	_ = conn.Close(ctx)
}
