package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/waypost/waypost/internal/site"
)

const (
	collectConns  = 128 // of browsers
	dividedConns  = 64  // of browsers, over one site and over several
	dividedSites  = 8
	batchConns    = 16 // of servers
	batchEvents   = 1000
	collectRounds = 3
	collectLeast  = 0.3
)

// way is one of the two in which events come.
type way struct {
	name  string
	conns int
	sites int     // that the connections divide among themselves
	least float64 // of COPY; 0 where nothing is promised
	send  func(conn net.Conn, s loadedSite, seed uint64, deadline time.Time) (int, error)
}

// collectFigure alternates rounds of events over HTTP with COPY of the very rows
// that came of them: hits one by one, as browsers send them, and batches, as
// servers do. The promise is of the faster way; the other is told.
func collectFigure(ctx context.Context, w *world) error {
	if _, err := w.owner.Exec(ctx, `select ensure_events_month($1)`, time.Now()); err != nil {
		return err
	}
	serve := w.serve
	if w.profile != "" {
		serve = func(ctx context.Context) error { return w.serveHandlers(ctx) }
	}
	if err := serve(ctx); err != nil {
		return err
	}
	for _, by := range []way{
		{"batches of 1,000", batchConns, 1, collectLeast, sendBatches},
		{"single hits", collectConns, 1, 0, sendHits},
		{"single hits over 64 connections", dividedConns, 1, 0, sendHits},
		{"single hits over 64 connections to 8 sites", dividedConns, dividedSites, 0, sendHits},
		{"batches of 1,000 to 8 sites", batchConns, dividedSites, 0, sendBatches},
	} {
		if err := w.compareCollect(ctx, by); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) compareCollect(ctx context.Context, by way) error {
	if _, err := w.collectRound(ctx, by, 2*time.Second); err != nil { // warms up
		return err
	}
	var ratios []float64
	for round := range collectRounds {
		before := processorTime()
		got, err := w.collectRound(ctx, by, w.collect)
		if err != nil {
			return err
		}
		n := got.Events
		if n == 0 {
			return errors.New("nothing was collected")
		}
		used := processorTime().since(before, n).sum()
		perSecond := float64(n) / w.collect.Seconds()
		if by.sites > 1 { // no site's rows are all
			fmt.Printf("   %s, round %d: collected %.0f/s, processor %v each\n", by.name, round+1, perSecond, used)
			continue
		}
		limit, err := w.copyRows(ctx, got)
		if err != nil {
			return err
		}
		fmt.Printf("   %s, round %d: collected %.0f/s, processor %v each; COPY %.0f/s\n", by.name, round+1, perSecond, used, limit)
		ratios = append(ratios, perSecond/limit)
	}
	if len(ratios) == 0 {
		return nil
	}
	middle := slices.Sorted(slices.Values(ratios))[len(ratios)/2]
	if by.least == 0 {
		fmt.Printf("   %s: %.2f of COPY\n", by.name, middle)
		return nil
	}
	fmt.Printf("   %s: %.2f of COPY (>= %.1f) %s\n", by.name, middle, by.least, verdict(middle >= by.least))
	return nil
}

// collectRound collects for sites of its own, so that their rows are the round's. It
// returns the first of them with the events of all.
func (w *world) collectRound(ctx context.Context, by way, d time.Duration) (loadedSite, error) {
	sites := make([]loadedSite, by.sites)
	for i := range sites {
		var err error
		if sites[i], err = w.newSite(ctx, by.name); err != nil {
			return loadedSite{}, err
		}
		if _, sites[i].Key, err = w.sites.CreateKey(ctx, sites[i].ID, "server", site.ScopeIngest); err != nil {
			return loadedSite{}, err
		}
	}
	var err error
	sites[0].Events, err = w.collectFor(ctx, by, sites, d)
	return sites[0], err
}

var collectAgents = []string{
	"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36",
	"Mozilla/5.0 (iPhone; CPU iPhone OS 18_6 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.6 Mobile/15E148 Safari/604.1",
	"Mozilla/5.0 (X11; Linux x86_64; rv:143.0) Gecko/20100101 Firefox/143.0",
}

// collectFor sends events over open connections, each its next request when the
// last was answered, and returns how many were counted. Requests are made ahead,
// and answers read only as far as needed, so that the server has the processors.
func (w *world) collectFor(ctx context.Context, by way, sites []loadedSite, d time.Duration) (int, error) {
	var counted atomic.Int64
	senders, ctx := errgroup.WithContext(ctx)
	deadline := time.Now().Add(d)
	for i := range by.conns {
		senders.Go(func() error {
			conn, err := w.dial(ctx)
			if err != nil {
				return err
			}
			n, err := by.send(conn, sites[i%len(sites)], uint64(i), deadline)
			counted.Add(int64(n))
			return errors.Join(err, conn.Close())
		})
	}
	err := senders.Wait()
	return int(counted.Load()), err
}

// sendHits sends what browsers send.
func sendHits(conn net.Conn, s loadedSite, seed uint64, deadline time.Time) (int, error) {
	hit := hitting(conn, s, seed)
	n := 0
	for ; time.Now().Before(deadline); n++ {
		if err := hit(); err != nil {
			return n, err
		}
	}
	return n, nil
}

// hitting returns what sends one more hit over conn and reads its answer. Each user
// agent stands for a visitor.
func hitting(conn net.Conn, s loadedSite, seed uint64) func() error {
	t := newTraffic(s.ID, seed)
	random := rand.New(rand.NewPCG(seed, 7))
	requests := make([][]byte, 64)
	for i := range requests {
		body := fmt.Sprintf(`{"site_key":%q,"url":"https://example.com%s","referrer":"https://%s/"}`, s.SiteKey, t.label("path"), t.label("source"))
		requests[i] = fmt.Appendf(nil, "POST /api/collect HTTP/1.1\r\nHost: %s\r\nContent-Type: text/plain\r\nUser-Agent: %s Visit/%d\r\nContent-Length: %d\r\n\r\n%s",
			conn.RemoteAddr(), collectAgents[i%len(collectAgents)], random.IntN(2000), len(body), body)
	}
	answers := bufio.NewReader(conn)
	n := 0
	return func() error {
		n++
		if _, err := conn.Write(requests[n%len(requests)]); err != nil {
			return err
		}
		return accepted(answers)
	}
}

// sendBatches sends what servers send: events of 49,152 visitors, each with an id of
// its own.
func sendBatches(conn net.Conn, s loadedSite, seed uint64, deadline time.Time) (int, error) {
	t := newTraffic(s.ID, seed)
	random := rand.New(rand.NewPCG(seed, uint64(deadline.UnixNano()))) // no id twice
	events := make([]string, 4*batchEvents)
	for i := range events {
		events[i] = fmt.Sprintf(`"url":"https://example.com%s","referrer":"https://%s/","ip":"198.51.%d.%d","user_agent":%q}`,
			t.label("path"), t.label("source"), random.IntN(64), random.IntN(256), collectAgents[random.IntN(len(collectAgents))])
	}
	answers := bufio.NewReader(conn)
	n := 0
	for time.Now().Before(deadline) {
		now := time.Now().UTC().Format(time.RFC3339Nano)
		body := []byte(`{"events":[`)
		for i := range batchEvents {
			if i > 0 {
				body = append(body, ',')
			}
			body = fmt.Appendf(body, `{"event_id":"%016x","ts":%q,%s`, random.Uint64(), now, events[(n+i)%len(events)])
		}
		body = append(body, "]}"...)
		head := fmt.Appendf(nil, "POST /api/collect/batch HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nX-Analytics-API-Key: %s\r\nContent-Length: %d\r\n\r\n", conn.RemoteAddr(), s.Key, len(body))
		if _, err := conn.Write(append(head, body...)); err != nil {
			return n, err
		}
		answer, err := http.ReadResponse(answers, nil)
		if err != nil {
			return n, err
		}
		var result struct{ Accepted int }
		err = json.NewDecoder(answer.Body).Decode(&result)
		if err = errors.Join(err, answer.Body.Close()); err != nil {
			return n, err
		}
		if answer.StatusCode != http.StatusOK || result.Accepted != batchEvents {
			return n, fmt.Errorf("answered %s with %d accepted", answer.Status, result.Accepted)
		}
		n += batchEvents
	}
	return n, nil
}

// accepted reads one answer, which has no body when it is the one hoped for.
func accepted(r *bufio.Reader) error {
	h, err := readHead(r)
	if err != nil || h.status == http.StatusAccepted {
		return err
	}
	body := make([]byte, max(h.length, 0))
	if _, err := io.ReadFull(r, body); err != nil {
		return err
	}
	return refusal{h.status, string(body)}
}

// copyRows is the limit: it copies the rows that a site's events became, as those
// of another site, into the same tables by one COPY each, in one transaction. It
// returns how many events a second that makes. Tables besides those of collection are
// also's.
func (w *world) copyRows(ctx context.Context, from loadedSite, also ...string) (float64, error) {
	to, err := w.newSite(ctx, "copied")
	if err != nil {
		return 0, err
	}
	tables := append([]string{"reported_events", "session_heads", "sessions", "events"}, also...)
	columns, rows := make([][]string, len(tables)), make([][][]any, len(tables))
	for i, table := range tables {
		if columns[i], rows[i], err = w.rowsOf(ctx, table, from, to); err != nil {
			return 0, err
		}
	}
	started := time.Now()
	err = pgx.BeginFunc(ctx, w.owner, func(tx pgx.Tx) error {
		for i, table := range tables {
			if _, err := tx.CopyFrom(ctx, pgx.Identifier{table}, columns[i], pgx.CopyFromRows(rows[i])); err != nil {
				return err
			}
		}
		return nil
	})
	return float64(from.Events) / time.Since(started).Seconds(), err
}

// rowsOf reads a site's rows of a table, and makes them another's.
func (w *world) rowsOf(ctx context.Context, table string, from, to loadedSite) ([]string, [][]any, error) {
	rows, err := w.owner.Query(ctx, "select * from "+pgx.Identifier{table}.Sanitize()+" where site_id = $1", from.ID)
	if err != nil {
		return nil, nil, err
	}
	var columns []string
	of := -1
	for i, f := range rows.FieldDescriptions() {
		if columns = append(columns, f.Name); f.Name == "site_id" {
			of = i
		}
	}
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) ([]any, error) {
		values, err := row.Values()
		if err == nil {
			values[of] = to.ID
		}
		return values, err
	})
	return columns, all, err
}
