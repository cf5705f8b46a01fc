package main

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	collectConns  = 128
	collectRounds = 3
	collectLeast  = 0.3
)

// collectFigure alternates rounds of hits over HTTP with COPY of as many rows of
// the same kind into the same table.
func collectFigure(ctx context.Context, w *world) error {
	s, err := w.newSite(ctx, "collected")
	if err != nil {
		return err
	}
	other, err := w.newSite(ctx, "copied")
	if err != nil {
		return err
	}
	if _, err := w.owner.Exec(ctx, `select ensure_events_month($1)`, time.Now()); err != nil {
		return err
	}
	if err := w.serve(ctx); err != nil {
		return err
	}
	if _, err := w.collectFor(ctx, s, 2*time.Second); err != nil { // warms up
		return err
	}
	var ratios, collected, copied []float64
	for range collectRounds {
		n, err := w.collectFor(ctx, s, w.collect)
		if err != nil {
			return err
		}
		perSecond := float64(n) / w.collect.Seconds()
		took, err := w.copyRows(ctx, other, n)
		if err != nil {
			return err
		}
		limit := float64(n) / took.Seconds()
		ratios, collected, copied = append(ratios, perSecond/limit), append(collected, perSecond), append(copied, limit)
	}
	middle := func(of []float64) float64 { return slices.Sorted(slices.Values(of))[len(of)/2] }
	fmt.Printf("   collected %.0f/s, COPY %.0f/s: %.2f (>= %.1f) %s\n", middle(collected), middle(copied), middle(ratios), collectLeast, verdict(middle(ratios) >= collectLeast))
	return nil
}

var collectAgents = []string{
	"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36",
	"Mozilla/5.0 (iPhone; CPU iPhone OS 18_6 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.6 Mobile/15E148 Safari/604.1",
	"Mozilla/5.0 (X11; Linux x86_64; rv:143.0) Gecko/20100101 Firefox/143.0",
}

// collectFor sends hits over open connections, each its next when the last was
// answered, and returns how many were answered with 202. Requests are made ahead,
// and answers read only as far as needed, so that the server has the processors.
// Each user agent stands for a visitor.
func (w *world) collectFor(ctx context.Context, s loadedSite, d time.Duration) (int, error) {
	var accepted atomic.Int64
	var senders sync.WaitGroup
	failures := make(chan error, collectConns)
	deadline := time.Now().Add(d)
	for i := range collectConns {
		senders.Go(func() {
			n, err := w.send(ctx, s, uint64(i), deadline)
			accepted.Add(int64(n))
			if err != nil {
				failures <- err
			}
		})
	}
	senders.Wait()
	select {
	case err := <-failures:
		return 0, err
	default:
		return int(accepted.Load()), nil
	}
}

func (w *world) send(ctx context.Context, s loadedSite, seed uint64, deadline time.Time) (int, error) {
	address := strings.TrimPrefix(w.url, "http://")
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close() }()
	t := newTraffic(s.ID, seed, 0)
	random := rand.New(rand.NewPCG(seed, 7))
	requests := make([][]byte, 64)
	for i := range requests {
		body := fmt.Sprintf(`{"site_key":%q,"url":"https://example.com%s","referrer":"https://%s/"}`, s.SiteKey, t.label("path"), t.label("source"))
		requests[i] = fmt.Appendf(nil, "POST /api/collect HTTP/1.1\r\nHost: %s\r\nContent-Type: text/plain\r\nUser-Agent: %s Visit/%d\r\nContent-Length: %d\r\n\r\n%s",
			address, collectAgents[i%len(collectAgents)], random.IntN(2000), len(body), body)
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
