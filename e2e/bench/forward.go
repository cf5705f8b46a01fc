package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

const (
	typeForward = "bench.forward"
	typeHang    = "bench.hang"

	forwardRate     = 0.5                   // at least, of INSERT, then UPDATE
	forwardIdle     = 30 * time.Millisecond // p50 from receipt to sink
	forwardBeside   = time.Second           // p99 from receipt to sink while another target hangs
	forwardHanging  = 10_000                // events that wait for that
	forwardPause    = 40 * time.Millisecond // between deliveries of an idle service
	forwardSingles  = 200                   // deliveries of an idle service
	forwardPatience = 2 * time.Minute       // for what was delivered to arrive
)

// sink takes forwards, and knows when each event first came.
type sink struct {
	url string
	mu  sync.Mutex
	at  map[string]time.Time // by the id in the body
	new chan struct{}        // closed at the next
}

// startSink serves a sink; one that hangs answers nothing until its client goes.
func (w *world) startSink(hangs bool) (*sink, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &sink{url: "http://" + l.Addr().String(), at: map[string]time.Time{}, new: make(chan struct{})}
	server := &http.Server{Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		if hangs {
			<-r.Context().Done()
			return
		}
		s.take(body)
	})}
	go func() { _ = server.Serve(l) }()
	w.stops = append(w.stops, func() { _ = server.Close() })
	return s, nil
}

func (s *sink) take(body []byte) {
	now := time.Now()
	_, rest, _ := bytes.Cut(body, []byte(`"id":"`))
	id, _, _ := bytes.Cut(rest, []byte(`"`))
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.at[string(id)]; !known {
		s.at[string(id)] = now
		close(s.new)
		s.new = make(chan struct{})
	}
}

// await waits for n events.
func (s *sink) await(ctx context.Context, n int) error {
	deadline := time.After(forwardPatience)
	for {
		s.mu.Lock()
		have, more := len(s.at), s.new
		s.mu.Unlock()
		if have >= n {
			return nil
		}
		select {
		case <-more:
		case <-ctx.Done():
			return ctx.Err()
		case <-deadline:
			return fmt.Errorf("%d of %d events came", have, n)
		}
	}
}

func (s *sink) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.at)
}

// forwardFigure holds forwarded events against INSERT, then UPDATE; then it measures how long
// one takes while nothing else goes on, and beside a target that hangs.
func forwardFigure(ctx context.Context, w *world) error {
	quick, err := w.startSink(false)
	if err != nil {
		return err
	}
	hanging, err := w.startSink(true)
	if err != nil {
		return err
	}
	if err := w.serveForwards(ctx, quick.url, hanging.url); err != nil {
		return err
	}
	idle, err := w.singly(ctx, quick, forwardSingles, forwardPause)
	if err != nil {
		return err
	}
	fmt.Printf("   idle, receipt to sink: p50 %v (<= %v) %s, p99 %v\n", round(at(idle, .5)), forwardIdle, verdict(at(idle, .5) <= forwardIdle), round(at(idle, .99)))
	if err := w.compareForwards(ctx, quick); err != nil {
		return err
	}
	rate, err := inParallel(webhookConns, w.webhooks, func(until time.Time) ([]time.Duration, error) {
		return w.sendUntil(ctx, typeHang, until, forwardHanging/webhookConns+1)
	})
	if err != nil {
		return err
	}
	beside, err := w.singly(ctx, quick, forwardSingles, 2*forwardPause)
	if err != nil {
		return err
	}
	var waiting int
	if err := w.owner.QueryRow(ctx, `select count(*) from webhook_events where status = 'pending' and event_type = $1`, typeHang).Scan(&waiting); err != nil {
		return err
	}
	fmt.Printf("   beside a target that hangs with %d events waiting (taken at %.0f/s): p50 %v, p99 %v (< %v) %s\n",
		waiting, rate.perSecond, round(at(beside, .5)), round(at(beside, .99)), forwardBeside, verdict(at(beside, .99) < forwardBeside && waiting >= forwardHanging*9/10))
	return nil
}

func at(took []time.Duration, p float64) time.Duration {
	sorted := slices.Sorted(slices.Values(took))
	return sorted[int(p*float64(len(sorted)-1))]
}

// serveForwards is serve with two targets.
func (w *world) serveForwards(ctx context.Context, quick, hanging string) error {
	file := filepath.Join(w.dir, "waypost.yaml")
	places := ""
	if w.places > 0 {
		places = fmt.Sprintf(", concurrency: %d", w.places)
	}
	config := fmt.Sprintf(`webhooks:
  handlers:
    - {provider: payment, event: %s, forward: [{name: quick, url: %q, secret_env: BENCH_FORWARD_SECRET%s}]}
    - {provider: payment, event: %s, forward: [{name: hanging, url: %q, secret_env: BENCH_FORWARD_SECRET%s}]}
`, typeForward, quick, places, typeHang, hanging, places)
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return err
	}
	return w.start(ctx, func(address string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, w.binary(), "serve", "--addr", address, "--url", w.url)
		cmd.Env = []string{"WAYPOST_CONFIG=" + file, "PAYMENT_WEBHOOK_SECRET=" + webhookSecret, "BENCH_FORWARD_SECRET=whsec_YSBrZXkgb2YgdGhlIGZvcndhcmRzIG9mIGEgYmVuY2g="}
		return cmd
	})
}

// sendUntil delivers events that are forwarded over one connection, up to most of them.
func (w *world) sendUntil(ctx context.Context, eventType string, until time.Time, most int) ([]time.Duration, error) {
	conn, err := w.dial(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	send := w.sending(conn, eventType, "pending")
	var took []time.Duration
	for began := time.Now(); began.Before(until) && len(took) < most; began = time.Now() {
		if _, err := send(); err != nil {
			return nil, err
		}
		took = append(took, time.Since(began))
	}
	return took, nil
}

// singly delivers one event after the other, with a pause between, and returns how long
// each took from the moment it was sent to the sink.
func (w *world) singly(ctx context.Context, s *sink, n int, pause time.Duration) ([]time.Duration, error) {
	conn, err := w.dial(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	send := w.sending(conn, typeForward, "pending")
	before, sent := s.count(), map[string]time.Time{}
	for range n {
		began := time.Now()
		id, err := send()
		if err != nil {
			return nil, err
		}
		sent[id] = began
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(pause):
		}
	}
	if err := s.await(ctx, before+n); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var took []time.Duration
	for id, began := range sent {
		took = append(took, s.at[id].Sub(began))
	}
	return took, nil
}

// compareForwards alternates rounds of deliveries, each until the sink has all of them, with
// rounds of the same rows written by pgx.
func (w *world) compareForwards(ctx context.Context, s *sink) error {
	pool, err := w.limitPool(ctx)
	if err != nil {
		return err
	}
	defer pool.Close()
	var rates []float64
	for round := range webhookRounds {
		before, began := s.count(), time.Now()
		taken, err := inParallel(webhookConns, w.webhooks, func(until time.Time) ([]time.Duration, error) {
			return w.sendUntil(ctx, typeForward, until, 1<<30)
		})
		if err != nil {
			return err
		}
		if err := w.awaitForwards(ctx, s); err != nil {
			return err
		}
		forwarded := float64(s.count()-before) / time.Since(began).Seconds()
		theirs, err := inParallel(webhookConns, w.webhooks, func(until time.Time) ([]time.Duration, error) {
			return timed(until, func() error { return insertThenUpdate(ctx, pool, newDelivery(typeForward)) })
		})
		if err != nil {
			return err
		}
		fmt.Printf("   round %d: taken %.0f/s, p99 %v; forwarded %.0f/s; limit %.0f/s\n", round+1, taken.perSecond, taken.p99, forwarded, theirs.perSecond)
		rates = append(rates, forwarded/theirs.perSecond)
	}
	fmt.Printf("   forwarded/s: %.2f of the limit (>= %.1f) %s\n", middle(rates), forwardRate, verdict(middle(rates) >= forwardRate))
	return nil
}

// awaitForwards waits until nothing is to be forwarded any more.
func (w *world) awaitForwards(ctx context.Context, s *sink) error {
	var stored int
	if err := w.owner.QueryRow(ctx, `select count(*) from webhook_events where event_type = $1`, typeForward).Scan(&stored); err != nil {
		return err
	}
	return s.await(ctx, stored)
}

// middle is the median.
func middle(of []float64) float64 { return slices.Sorted(slices.Values(of))[len(of)/2] }
