package telemetry

import (
	"context"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// Statements makes a span of each statement, batch, copy and wait for a connection of
// work that is traced: a job, say, or a request. It begins no trace, and shows
// neither a statement's text nor its values: a span is called as the statement is
// in queries/.
type Statements struct{ tracer trace.Tracer }

// Statements are the spans of the database's client.
func (t *Tracing) Statements() *Statements { return &Statements{t.Tracer()} }

var system = attribute.String("db.system.name", "postgresql")

func (s *Statements) begin(ctx context.Context, name string, attrs ...attribute.KeyValue) context.Context {
	if !trace.SpanContextFromContext(ctx).IsSampled() {
		return ctx
	}
	ctx, _ = s.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(append(attrs, system)...))
	return context.WithValue(ctx, openKey{}, true)
}

// openKey marks contexts whose span is ours to end.
type openKey struct{}

func end(ctx context.Context, err error) {
	if ctx.Value(openKey{}) == nil {
		return
	}
	span := trace.SpanFromContext(ctx)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		// The message may hold values.
		state := "no answer"
		if e, ok := errors.AsType[*pgconn.PgError](err); ok {
			state = e.Code
		}
		span.SetAttributes(attribute.String("error.type", state))
		span.SetStatus(codes.Error, state)
	}
	span.End()
}

// TraceQueryStart implements pgx.QueryTracer.
func (s *Statements) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	return s.begin(ctx, statementName(data.SQL))
}

// TraceQueryEnd implements pgx.QueryTracer.
func (s *Statements) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryEndData) {
	end(ctx, data.Err)
}

// TraceBatchStart implements pgx.BatchTracer.
func (s *Statements) TraceBatchStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	names := make([]string, 0, len(data.Batch.QueuedQueries))
	for _, q := range data.Batch.QueuedQueries[:min(len(data.Batch.QueuedQueries), 20)] {
		names = append(names, statementName(q.SQL))
	}
	name := "batch"
	if len(names) > 0 {
		name = names[len(names)-1] // before it, statements that open a transaction
	}
	return s.begin(ctx, name, attribute.StringSlice("waypost.statements", names))
}

// TraceBatchQuery implements pgx.BatchTracer.
func (s *Statements) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

// TraceBatchEnd implements pgx.BatchTracer.
func (s *Statements) TraceBatchEnd(ctx context.Context, _ *pgx.Conn, data pgx.TraceBatchEndData) {
	end(ctx, data.Err)
}

// TraceCopyFromStart implements pgx.CopyFromTracer.
func (s *Statements) TraceCopyFromStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceCopyFromStartData) context.Context {
	return s.begin(ctx, "copy "+strings.Join(data.TableName, "."))
}

// TraceCopyFromEnd implements pgx.CopyFromTracer.
func (s *Statements) TraceCopyFromEnd(ctx context.Context, _ *pgx.Conn, data pgx.TraceCopyFromEndData) {
	end(ctx, data.Err)
}

// TraceAcquireStart implements pgxpool.AcquireTracer.
func (s *Statements) TraceAcquireStart(ctx context.Context, _ *pgxpool.Pool, _ pgxpool.TraceAcquireStartData) context.Context {
	return s.begin(ctx, "wait for a connection")
}

// TraceAcquireEnd implements pgxpool.AcquireTracer.
func (s *Statements) TraceAcquireEnd(ctx context.Context, _ *pgxpool.Pool, data pgxpool.TraceAcquireEndData) {
	end(ctx, data.Err)
}

// statementName is the name that sqlc writes before a statement, else its first word.
func statementName(sql string) string {
	if rest, ok := strings.CutPrefix(sql, "-- name: "); ok {
		name, _, _ := strings.Cut(rest, " ")
		return name
	}
	word, _, _ := strings.Cut(strings.TrimSpace(sql), " ")
	word, _, _ = strings.Cut(word, "\n")
	word = strings.TrimRight(word, ";")
	if len(word) > 20 || word == "" {
		return "statement"
	}
	return strings.ToLower(word)
}
