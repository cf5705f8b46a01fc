package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	webhookConns  = 64
	webhookRounds = 5
	webhookSecret = "bench"
	// webhookBody is the size of a delivery's body in bytes.
	webhookBody = 1024

	typeUnhandled = "bench.unhandled"
	typeNoop      = "bench.noop"
	typeEffect    = "bench.effect"

	// webhookLatency is the most that p99 may be of the limit's.
	webhookLatency = 1.5
)

// webhooksFigure holds deliveries without a handler against bare INSERTs.
func webhooksFigure(ctx context.Context, w *world) error {
	return w.compareWebhooks(ctx, typeUnhandled, 1.0, insertProcessed)
}

// webhooksNoopFigure holds deliveries with a handler against INSERT, then UPDATE.
func webhooksNoopFigure(ctx context.Context, w *world) error {
	return w.compareWebhooks(ctx, typeNoop, auditedNoop, insertThenUpdate)
}

// webhooksEffectFigure holds deliveries whose handler writes a row in the event's
// transaction against INSERT, then that row and UPDATE in one transaction. Nothing
// is promised of it: each such delivery pays for a transaction of its own.
func webhooksEffectFigure(ctx context.Context, w *world) error {
	if _, err := w.owner.Exec(ctx, `create table bench_effects (event uuid primary key); grant insert on bench_effects to waypost_app`); err != nil {
		return err
	}
	return w.compareWebhooks(ctx, typeEffect, 0, insertThenEffect)
}

// rate is what one round of workers did.
type rate struct {
	perSecond float64
	p50, p99  time.Duration
	processor processorUse // each
}

// compareWebhooks alternates rounds of deliveries over HTTP with rounds of the
// same rows written by pgx, into a table like theirs without triggers.
func (w *world) compareWebhooks(ctx context.Context, eventType string, least float64, limit func(context.Context, *pgxpool.Pool, delivery) error) error {
	deliver, write, end, err := w.rounds(ctx, eventType, limit)
	if err != nil {
		return err
	}
	defer end()
	var rates, latencies []float64
	for round := range webhookRounds {
		ours, err := deliver(w.webhooks)
		if err != nil {
			return err
		}
		theirs, err := write(w.webhooks)
		if err != nil {
			return err
		}
		fmt.Printf("   round %d: %.0f/s, p50 %v, p99 %v, processor %v each; limit %.0f/s, p50 %v, p99 %v, processor %v each\n", round+1,
			ours.perSecond, ours.p50, ours.p99, ours.processor.sum(), theirs.perSecond, theirs.p50, theirs.p99, theirs.processor.sum())
		rates = append(rates, ours.perSecond/theirs.perSecond)
		latencies = append(latencies, float64(ours.p99)/float64(theirs.p99))
	}
	fmt.Printf("   deliveries/s: %.2f of the limit (>= %.2f) %s; p99: %.2f of the limit's (<= %.1f) %s\n",
		middle(rates), least, verdict(middle(rates) >= least), middle(latencies), webhookLatency, verdict(middle(latencies) <= webhookLatency))
	return nil
}

// rounds starts a service and returns, warmed up, a round of deliveries of a type over
// HTTP and one of the limit's writing. end is to be called after the last.
func (w *world) rounds(ctx context.Context, eventType string, limit func(context.Context, *pgxpool.Pool, delivery) error) (deliver, write func(time.Duration) (rate, error), end func(), err error) {
	pool, err := w.limitPool(ctx)
	if err != nil {
		return nil, nil, nil, err
	}
	deliver = func(d time.Duration) (rate, error) {
		return inParallel(webhookConns, d, func(until time.Time) ([]time.Duration, error) { return w.deliverUntil(ctx, eventType, until) })
	}
	write = func(d time.Duration) (rate, error) {
		return inParallel(webhookConns, d, func(until time.Time) ([]time.Duration, error) {
			return timed(until, func() error { return limit(ctx, pool, newDelivery(eventType)) })
		})
	}
	err = w.serveHandlers(ctx)
	for _, warmUp := range []func(time.Duration) (rate, error){deliver, write} {
		if err == nil {
			_, err = warmUp(2 * time.Second)
		}
	}
	if err != nil {
		pool.Close()
	}
	return deliver, write, pool.Close, err
}

// limitPool has the connections of the limit, which writes to a table like that of
// deliveries, without its triggers.
func (w *world) limitPool(ctx context.Context) (*pgxpool.Pool, error) {
	_, err := w.owner.Exec(ctx, `create table if not exists bench_events (like webhook_events including all);
		grant select, insert, update on bench_events to waypost_app;
		insert into audit_excluded (pattern, reason) values ('bench\_%', 'the limits of measurements') on conflict do nothing`)
	if err != nil {
		return nil, err
	}
	c, err := pgxpool.ParseConfig(w.server.AppURL("bench"))
	if err != nil {
		return nil, err
	}
	c.MinConns, c.MaxConns = webhookConns, webhookConns
	return pgxpool.NewWithConfig(ctx, c)
}

// inParallel has conns workers work for d.
func inParallel(conns int, d time.Duration, work func(until time.Time) ([]time.Duration, error)) (rate, error) {
	var mu sync.Mutex
	var took []time.Duration
	var errs []error
	var workers sync.WaitGroup
	before, started := processorTime(), time.Now()
	for range conns {
		workers.Go(func() {
			each, err := work(started.Add(d))
			mu.Lock()
			defer mu.Unlock()
			took, errs = append(took, each...), append(errs, err)
		})
	}
	workers.Wait()
	all := time.Since(started)
	if err := errors.Join(errs...); err != nil {
		return rate{}, err
	}
	if len(took) == 0 {
		return rate{}, errors.New("nothing was done")
	}
	slices.Sort(took)
	at := func(p float64) time.Duration {
		return took[int(p*float64(len(took)-1))].Round(10 * time.Microsecond)
	}
	return rate{float64(len(took)) / all.Seconds(), at(.5), at(.99), processorTime().since(before, len(took))}, nil
}

// timed repeats one piece of work until the time comes.
func timed(until time.Time, once func() error) ([]time.Duration, error) {
	var took []time.Duration
	for {
		started := time.Now()
		if !started.Before(until) {
			return took, nil
		}
		if err := once(); err != nil {
			return nil, err
		}
		took = append(took, time.Since(started))
	}
}

// delivery is an event as it is sent and as it is stored.
type delivery struct {
	id        uuid.UUID
	eventType string
	body      []byte
}

func newDelivery(eventType string) delivery {
	id := uuid.Must(uuid.NewV7())
	head := fmt.Sprintf(`{"id":"evt_%s","type":%q,"data":"`, id, eventType)
	body := make([]byte, 0, webhookBody)
	body = append(body, head...)
	body = append(body, filling[:webhookBody-len(head)-2]...)
	return delivery{id: id, eventType: eventType, body: append(body, `"}`...)}
}

// filling is text that compresses about as well as the values in real payloads.
var filling = hex.EncodeToString(bytes.Repeat([]byte("Waypost benchmark \x00\x9f\x42\xe1\x77\x0d"), 64))

// deliverUntil sends deliveries over one connection, each when the last was
// answered.
func (w *world) deliverUntil(ctx context.Context, eventType string, until time.Time) ([]time.Duration, error) {
	conn, err := w.dial(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	return timed(until, w.delivering(conn, eventType))
}

func (w *world) dial(ctx context.Context) (net.Conn, error) {
	var dialer net.Dialer
	return dialer.DialContext(ctx, "tcp", strings.TrimPrefix(w.url, "http://"))
}

// delivering returns what sends one more delivery over conn and reads its answer.
func (w *world) delivering(conn net.Conn, eventType string) func() error {
	send := w.sending(conn, eventType, "processed")
	return func() error {
		_, err := send()
		return err
	}
}

// sending is delivering for events that get another status; it returns the event's id in
// its body.
func (w *world) sending(conn net.Conn, eventType, status string) func() (string, error) {
	answers := bufio.NewReader(conn)
	var request []byte
	return func() (string, error) {
		d := newDelivery(eventType)
		t := strconv.FormatInt(time.Now().Unix(), 10)
		mac := hmac.New(sha256.New, []byte(webhookSecret))
		mac.Write([]byte(t + "."))
		mac.Write(d.body)
		request = fmt.Appendf(request[:0], "POST /webhooks/payment HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nUser-Agent: bench\r\nPayment-Signature: t=%s,v1=%x\r\nContent-Length: %d\r\n\r\n",
			conn.RemoteAddr(), t, mac.Sum(nil), len(d.body))
		if _, err := conn.Write(append(request, d.body...)); err != nil {
			return "", err
		}
		return "evt_" + d.id.String(), answered(answers, status)
	}
}

// answered reads one answer, which must say that the event has that status.
func answered(r *bufio.Reader, status string) error {
	h, err := readHead(r)
	if err != nil {
		return err
	}
	body := make([]byte, max(h.length, 0))
	if _, err := io.ReadFull(r, body); err != nil {
		return err
	}
	if h.status != http.StatusOK || !bytes.Contains(body, []byte(`"status":"`+status+`"`)) {
		return refusal{h.status, string(body)}
	}
	return nil
}

// refusal is an answer other than the one hoped for.
type refusal struct {
	status int
	body   string
}

// Error implements error.
func (r refusal) Error() string { return fmt.Sprintf("answered %d %s", r.status, r.body) }

const (
	insertEvent = `insert into bench_events (id, provider, event_type, external_id, status, processed_at, created_at, raw, raw_sha256, headers)
		values ($1, 'payment', $2, $3, 'processed', $4, $4, $5, $6, $7)`
	insertPending = `insert into bench_events (id, provider, event_type, external_id, status, created_at, raw, raw_sha256, headers, lease_id, lease_until, attempts, tries, attempt_at)
		values ($1, 'payment', $2, $3, 'pending', $4, $5, $6, $7, $1, now() + interval '20 seconds', 1, 1, now())`
	insertEffect = `insert into bench_effects (event) values ($1)`
	updateEvent  = `update bench_events set status = 'processed', processed_at = $2, attempt_ms = 0.1, lease_id = null, lease_until = null
		where id = $1 and lease_id = $1`
	eventHeaders = `{"Content-Length":["1024"],"Content-Type":["application/json"],"Payment-Signature":["[redacted]"],"User-Agent":["bench"]}`
)

// insertProcessed is the limit without a handler: the row, one commit.
func insertProcessed(ctx context.Context, pool *pgxpool.Pool, d delivery) error {
	return writeEvent(ctx, pool, insertEvent, d)
}

// insertThenUpdate is the limit with one: the row, a commit, its outcome, a commit.
func insertThenUpdate(ctx context.Context, pool *pgxpool.Pool, d delivery) error {
	if err := writeEvent(ctx, pool, insertPending, d); err != nil {
		return err
	}
	_, err := pool.Exec(ctx, updateEvent, d.id, time.Now())
	return err
}

// insertThenEffect is the limit with a handler that writes: the row, a commit, the
// effect and the outcome, a commit.
func insertThenEffect(ctx context.Context, pool *pgxpool.Pool, d delivery) error {
	if err := writeEvent(ctx, pool, insertPending, d); err != nil {
		return err
	}
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, insertEffect, d.id); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, updateEvent, d.id, time.Now())
		return err
	})
}

func writeEvent(ctx context.Context, pool *pgxpool.Pool, sql string, d delivery) error {
	sum := sha256.Sum256(d.body)
	_, err := pool.Exec(ctx, sql, d.id, d.eventType, "evt_"+d.id.String(), time.Now(), d.body, sum[:], eventHeaders)
	return err
}
