package db

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/waypost/waypost/internal/fault"
)

// ErrUnavailable is what Translate makes of a database that is away, starting,
// stopping or out of connections.
var ErrUnavailable = fault.New(fault.Unavailable, fault.CodeUnavailable, "The service cannot reach its database. Try again shortly.").After(2 * time.Second)

// ErrSlow is what Translate makes of a database that did not answer before the
// caller's time was over. Its kind and code are those of ErrUnavailable.
var ErrSlow = fault.New(fault.Unavailable, fault.CodeUnavailable, "The database did not answer in time. Try again shortly.").After(2 * time.Second)

// Translate turns the driver's errors that mean "the database is away" into
// ErrUnavailable, the end of the caller's time into ErrSlow, and leaves every other
// error, faults included, as it is.
func Translate(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*fault.Error](err); ok {
		return err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return ErrSlow.Because(err)
	}
	if isAway(err) {
		return ErrUnavailable.Because(err)
	}
	return err
}

// NotFound is Translate with pgx.ErrNoRows turned into f.
func NotFound(err error, f *fault.Error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return f.Because(err)
	}
	return Translate(err)
}

// Violates reports whether err is a violation of the constraint or unique index
// of that name.
func Violates(err error, constraint string) bool {
	pe, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pe.ConstraintName == constraint
}

func isAway(err error) bool {
	if pe, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch {
		case strings.HasPrefix(pe.Code, "08"), // connection exception
			pe.Code == "53300",                                         // too many connections
			pe.Code == "57P01", pe.Code == "57P02", pe.Code == "57P03", // shutdown, crash, starting up
			pe.Code == "25006": // read-only: a demoted primary
			return true
		}
		return false
	}
	if errors.Is(err, context.Canceled) {
		return false
	}
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return true
	}
	if _, ok := errors.AsType[net.Error](err); ok {
		return true
	}
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		strings.Contains(err.Error(), "conn closed") // pgx has no sentinel for a connection it closed itself
}
