package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/waypost/waypost/internal/site"
)

const (
	collectConns  = 128 // of browsers
	batchConns    = 8   // of servers
	batchEvents   = 500
	collectRounds = 3
	collectLeast  = 0.3
)

// collectFigure alternates rounds of events over HTTP with COPY of as many rows of
// the same kind into the same table: hits one by one, as browsers send them, and
// batches, as servers do. The promise is of the faster way; the other is told.
func collectFigure(ctx context.Context, w *world) error {
	s, err := w.newSite(ctx, "collected")
	if err != nil {
		return err
	}
	_, ingest, err := w.sites.CreateKey(ctx, s.ID, "server", site.ScopeIngest)
	if err != nil {
		return err
	}
	if _, err := w.owner.Exec(ctx, `select ensure_events_month($1)`, time.Now()); err != nil {
		return err
	}
	serve := w.serve
	if w.profile != "" {
		serve = w.serveHandlers
	}
	if err := serve(ctx); err != nil {
		return err
	}
	for _, way := range []struct {
		name  string
		conns int
		send  func(conn net.Conn, seed uint64, deadline time.Time) (int, error)
		least float64
	}{
		{"batches of 500", batchConns, func(conn net.Conn, seed uint64, deadline time.Time) (int, error) {
			return w.sendBatches(conn, s, ingest, seed, deadline)
		}, collectLeast},
		{"single hits", collectConns, func(conn net.Conn, seed uint64, deadline time.Time) (int, error) {
			return w.sendHits(conn, s, seed, deadline)
		}, 0},
	} {
		if err := w.compareCollect(ctx, way.name, way.conns, way.send, way.least); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) compareCollect(ctx context.Context, name string, conns int, send func(net.Conn, uint64, time.Time) (int, error), least float64) error {
	other, err := w.newSite(ctx, "copied beside "+name)
	if err != nil {
		return err
	}
	if _, err := w.collectFor(ctx, conns, send, 2*time.Second); err != nil { // warms up
		return err
	}
	var ratios []float64
	for round := range collectRounds {
		before := processorTime()
		n, err := w.collectFor(ctx, conns, send, w.collect)
		if err != nil {
			return err
		}
		if n == 0 {
			return errors.New("nothing was collected")
		}
		used := (processorTime() - before) / time.Duration(n)
		perSecond := float64(n) / w.collect.Seconds()
		before = processorTime()
		took, err := w.copyRows(ctx, other, n)
		if err != nil {
			return err
		}
		limit := float64(n) / took.Seconds()
		fmt.Printf("   %s, round %d: collected %.0f/s, processor %v each; COPY %.0f/s, processor %v each\n", name, round+1, perSecond, used, limit, (processorTime()-before)/time.Duration(n))
		ratios = append(ratios, perSecond/limit)
	}
	middle := slices.Sorted(slices.Values(ratios))[len(ratios)/2]
	if least == 0 {
		fmt.Printf("   %s: %.2f of COPY\n", name, middle)
		return nil
	}
	fmt.Printf("   %s: %.2f of COPY (>= %.1f) %s\n", name, middle, least, verdict(middle >= least))
	return nil
}

var collectAgents = []string{
	"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36",
	"Mozilla/5.0 (iPhone; CPU iPhone OS 18_6 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.6 Mobile/15E148 Safari/604.1",
	"Mozilla/5.0 (X11; Linux x86_64; rv:143.0) Gecko/20100101 Firefox/143.0",
}

// collectFor sends events over open connections, each its next request when the
// last was answered, and returns how many were counted. Requests are made ahead,
// and answers read only as far as needed, so that the server has the processors.
func (w *world) collectFor(ctx context.Context, conns int, send func(net.Conn, uint64, time.Time) (int, error), d time.Duration) (int, error) {
	var counted atomic.Int64
	senders, ctx := errgroup.WithContext(ctx)
	deadline := time.Now().Add(d)
	for i := range conns {
		senders.Go(func() error {
			var dialer net.Dialer
			conn, err := dialer.DialContext(ctx, "tcp", strings.TrimPrefix(w.url, "http://"))
			if err != nil {
				return err
			}
			n, err := send(conn, uint64(i), deadline)
			counted.Add(int64(n))
			return errors.Join(err, conn.Close())
		})
	}
	err := senders.Wait()
	return int(counted.Load()), err
}

// sendHits sends what browsers send. Each user agent stands for a visitor.
func (w *world) sendHits(conn net.Conn, s loadedSite, seed uint64, deadline time.Time) (int, error) {
	t := newTraffic(s.ID, seed, 0)
	random := rand.New(rand.NewPCG(seed, 7))
	requests := make([][]byte, 64)
	for i := range requests {
		body := fmt.Sprintf(`{"site_key":%q,"url":"https://example.com%s","referrer":"https://%s/"}`, s.SiteKey, t.label("path"), t.label("source"))
		requests[i] = fmt.Appendf(nil, "POST /api/collect HTTP/1.1\r\nHost: %s\r\nContent-Type: text/plain\r\nUser-Agent: %s Visit/%d\r\nContent-Length: %d\r\n\r\n%s",
			conn.RemoteAddr(), collectAgents[i%len(collectAgents)], random.IntN(2000), len(body), body)
	}
	answers := bufio.NewReader(conn)
	n := 0
	for ; time.Now().Before(deadline); n++ {
		if _, err := conn.Write(requests[n%len(requests)]); err != nil {
			return n, err
		}
		if err := accepted(answers); err != nil {
			return n, err
		}
	}
	return n, nil
}

// sendBatches sends what servers send: events of many visitors, each with an id of
// its own.
func (w *world) sendBatches(conn net.Conn, s loadedSite, key string, seed uint64, deadline time.Time) (int, error) {
	t := newTraffic(s.ID, seed, 0)
	random := rand.New(rand.NewPCG(seed, uint64(deadline.UnixNano()))) // no id twice
	events := make([]string, 4*batchEvents)
	for i := range events {
		events[i] = fmt.Sprintf(`"url":"https://example.com%s","referrer":"https://%s/","ip":"198.51.%d.%d","user_agent":%q}`,
			t.label("path"), t.label("source"), random.IntN(32), random.IntN(256), collectAgents[random.IntN(len(collectAgents))])
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
		head := fmt.Appendf(nil, "POST /api/collect/batch HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nX-Analytics-API-Key: %s\r\nContent-Length: %d\r\n\r\n", conn.RemoteAddr(), key, len(body))
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

// accepted reads one answer, which has no body.
func accepted(r *bufio.Reader) error {
	status, err := r.ReadSlice('\n')
	if err != nil {
		return err
	}
	if !strings.HasPrefix(string(status), "HTTP/1.1 202") {
		return fmt.Errorf("answered %s", status)
	}
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return err
		}
		if len(line) == 2 {
			return nil
		}
	}
}

// copyRows is the limit: n rows into events, with its indexes, in one COPY.
func (w *world) copyRows(ctx context.Context, s loadedSite, n int) (time.Duration, error) {
	now := time.Now().UTC()
	t := newTraffic(s.ID, uint64(now.UnixNano()), 0)
	t.makeDay(now.Truncate(24*time.Hour), n, now)
	started := time.Now()
	_, err := w.owner.CopyFrom(ctx, pgx.Identifier{"events"}, eventColumns, pgx.CopyFromRows(t.events[:n]))
	return time.Since(started), err
}
