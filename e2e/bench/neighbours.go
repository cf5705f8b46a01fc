package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"slices"
	"sync"
	"time"
)

const (
	neighbourConns = 32  // that saturate with deliveries, beside as many with hits: 64 as elsewhere
	pacedConns     = 256 // at a given rate: many senders, each of whom seldom sends
	questioners    = 40  // who ask at the same time
	// neighbourTimes and neighbourFloor bound the p99 of deliveries and hits beside
	// questions: the larger of so many times the p99 without them, and this.
	neighbourTimes = 2
	neighbourFloor = 50 * time.Millisecond
	// neighbourRate is the least rate of answers beside deliveries and hits, of the
	// rate without them.
	neighbourRate = 0.5
)

// neighboursFigure asks expensive questions of a year beside deliveries and hits at
// half the rate that saturates the service: these must hardly notice, and none of
// them may be refused.
func neighboursFigure(ctx context.Context, w *world) error {
	f, err := w.fill(ctx, yearDays, w.events/10)
	if err != nil {
		return err
	}
	if err := w.serveReceiver(ctx); err != nil {
		return err
	}
	asked, counted := f.Sites[0], loadedSite{}
	if counted, err = w.newSite(ctx, "beside"); err != nil {
		return err
	}
	most, err := w.together(ctx, counted, w.neighbours/4, map[string]float64{})
	if err != nil {
		return err
	}
	half := map[string]float64{}
	for name, of := range most {
		half[name] = of.perSecond / 2
		fmt.Printf("   %s: %.0f/s at most beside each other, %.0f/s from here on\n", name, of.perSecond, half[name])
	}
	used := processorTime()
	before, err := w.together(ctx, counted, w.neighbours/2, half)
	if err != nil {
		return err
	}
	fmt.Printf("   processors without questions: %s\n", processorTime().since(used, 1).parts())
	used = processorTime()
	alone := w.question(ctx, asked, f.At, w.neighbours/2)
	fmt.Printf("   questions alone: %s; processors: %s\n", alone, processorTime().since(used, 1).parts())

	var during answers
	var unready []string
	var beside sync.WaitGroup
	beside.Go(func() { during = w.question(ctx, asked, f.At, w.neighbours) })
	beside.Go(func() { unready = w.watchReadiness(ctx, w.neighbours) })
	used = processorTime()
	after, err := w.together(ctx, counted, w.neighbours, half)
	beside.Wait()
	if err != nil {
		return err
	}
	fmt.Printf("   questions beside: %s; processors: %s\n", during, processorTime().since(used, 1).parts())
	for _, name := range slices.Sorted(maps.Keys(after)) {
		limit := max(neighbourTimes*before[name].p99, neighbourFloor)
		fmt.Printf("   %s: %.0f/s, p50 %v, p99 %v without questions, %v with them (<= %v) %s; refused %d (0) %s\n", name, after[name].perSecond, after[name].p50,
			before[name].p99, after[name].p99, limit, verdict(after[name].p99 <= limit), after[name].refused, verdict(after[name].refused == 0))
	}
	share := during.perSecond() / alone.perSecond()
	fmt.Printf("   answers: %.2f of their rate alone (>= %.1f) %s; answered otherwise than 200 and 503 busy: %d (0) %s; not ready: %v %s\n",
		share, neighbourRate, verdict(share >= neighbourRate), during.others, verdict(during.others == 0), unready, verdict(len(unready) == 0))
	return nil
}

// serveReceiver is serve with the secret of a webhook provider.
func (w *world) serveReceiver(ctx context.Context) error {
	return w.start(ctx, func(address string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, w.binary(), "serve", "--addr", address, "--url", w.url)
		cmd.Env = []string{"PAYMENT_WEBHOOK_SECRET=" + webhookSecret, "WAYPOST_STATS_TIMEOUT=" + w.statsTimeout.String()}
		return cmd
	})
}

// paced is what came of requests at a given rate.
type paced struct {
	rate
	refused int
}

// together delivers and hits for a while, each at the given rate, or as fast as
// they are answered where there is none.
func (w *world) together(ctx context.Context, s loadedSite, d time.Duration, perSecond map[string]float64) (map[string]paced, error) {
	type kind struct {
		name string
		make func(conn net.Conn, seed uint64) func() error
	}
	kinds := []kind{
		{"deliveries", func(conn net.Conn, _ uint64) func() error { return w.delivering(conn, typeUnhandled) }},
		{"hits", func(conn net.Conn, seed uint64) func() error { return hitting(conn, s, seed) }},
	}
	var mu sync.Mutex
	var errs []error
	of, took := map[string]paced{}, map[string][]time.Duration{}
	var senders sync.WaitGroup
	started := time.Now()
	for _, k := range kinds {
		conns := neighbourConns
		if perSecond[k.name] > 0 {
			conns = pacedConns
		}
		for i := range conns {
			senders.Go(func() {
				var interval time.Duration
				if perSecond[k.name] > 0 {
					interval = time.Duration(float64(time.Second) * float64(conns) / perSecond[k.name])
				}
				due := started.Add(interval * time.Duration(i) / time.Duration(conns))
				times, refused, err := w.pace(ctx, func(conn net.Conn) func() error { return k.make(conn, uint64(i)) }, due, interval, started.Add(d))
				mu.Lock()
				defer mu.Unlock()
				took[k.name], errs = append(took[k.name], times...), append(errs, err)
				p := of[k.name]
				p.refused += refused
				of[k.name] = p
			})
		}
	}
	senders.Wait()
	all := time.Since(started)
	for name, times := range took {
		if len(times) == 0 {
			return nil, errors.New("nothing was done")
		}
		slices.Sort(times)
		at := func(p float64) time.Duration { return times[int(p*float64(len(times)-1))].Round(10 * time.Microsecond) }
		of[name] = paced{rate: rate{perSecond: float64(len(times)) / all.Seconds(), p50: at(.5), p99: at(.99)}, refused: of[name].refused}
	}
	return of, errors.Join(errs...)
}

// pace sends over one connection, each request when it is due or, without an
// interval, when the last was answered. A request's time counts from when it was
// due: one that waits for another before it is late too.
func (w *world) pace(ctx context.Context, make func(net.Conn) func() error, due time.Time, interval time.Duration, until time.Time) ([]time.Duration, int, error) {
	conn, err := w.dial(ctx)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = conn.Close() }()
	once := make(conn)
	var took []time.Duration
	refused := 0
	for due.Before(until) {
		time.Sleep(time.Until(due))
		sent := time.Now()
		switch err := once(); {
		case err == nil:
			took = append(took, time.Since(sent))
		case errors.As(err, new(refusal)):
			refused++
		default:
			return nil, 0, err
		}
		if due = due.Add(interval); interval == 0 {
			due = time.Now()
		}
	}
	return took, refused, nil
}

// answers are what came of questions.
type answers struct {
	answered, busy, expensive, others int
	example                           string // of others
	took                              time.Duration
}

func (a answers) perSecond() float64 { return float64(a.answered) / a.took.Seconds() }

// String says it in a line.
func (a answers) String() string {
	return fmt.Sprintf("%d answered (%.2f/s), %d refused as busy, %d too expensive, %d others %s", a.answered, a.perSecond(), a.busy, a.expensive, a.others, a.example)
}

// question has questioners ask filtered questions about 12 months, no two alike,
// each the next when the last was answered. The filters are patterns, which no index
// answers: what is cheap today would measure nothing.
func (w *world) question(ctx context.Context, s loadedSite, at time.Time, d time.Duration) answers {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: questioners}}
	defer client.CloseIdleConnections()
	var mu sync.Mutex
	var sum answers
	var all sync.WaitGroup
	started := time.Now()
	for i := range questioners {
		all.Go(func() {
			random := rand.New(rand.NewPCG(uint64(i), uint64(started.UnixNano())))
			t := newTraffic(s.ID, random.Uint64())
			for time.Since(started) < d {
				status, body := w.askOnce(ctx, client, s, at, random, t)
				mu.Lock()
				switch {
				case status == http.StatusOK:
					sum.answered++
				case status == http.StatusServiceUnavailable && hasError(body, "busy"):
					sum.busy++
				case status == http.StatusUnprocessableEntity && hasError(body, "query_too_expensive"):
					sum.expensive++
				default:
					sum.others++
					sum.example = fmt.Sprintf("%d %s", status, body)
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	sum.took = time.Since(started)
	return sum
}

// hasError reports whether an answer is an error of that code.
func hasError(body []byte, code string) bool {
	return bytes.HasPrefix(body, []byte(`{"error":{"code":"`+code+`",`))
}

// pattern is one that matches many labels of a dimension, the given one among them.
func pattern(label string) string {
	const kept = 2 // digits or letters
	return "*" + label[max(0, len(label)-kept):] + "*"
}

// askOnce asks one question; its status is 0 when there was no answer.
func (w *world) askOnce(ctx context.Context, client *http.Client, s loadedSite, at time.Time, random *rand.Rand, t *traffic) (int, []byte) {
	filters := []string{"source", "country", "device", "event"}
	filter := filters[random.IntN(len(filters))]
	to := at.UTC().Add(-time.Duration(random.IntN(86_400)) * time.Second)
	values := url.Values{
		"from": {to.AddDate(-1, 0, 0).Format(time.RFC3339)}, "to": {to.Format(time.RFC3339)},
		"filter[path]":           {fmt.Sprintf("/articles/*%d*", random.IntN(10))},
		"filter[" + filter + "]": {pattern(t.label(filter))},
	}
	endpoint := []string{"summary", "timeseries", "pages", "referrers", "tech"}[random.IntN(5)]
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.url+"/api/stats/"+endpoint+"?"+values.Encode(), nil)
	if err != nil {
		return 0, []byte(err.Error())
	}
	req.Header.Set("X-Analytics-API-Key", s.Key)
	resp, err := client.Do(req)
	if err != nil {
		return 0, []byte(err.Error())
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, []byte(err.Error())
	}
	return resp.StatusCode, body
}

// watchReadiness asks four times a second and returns what was not 200.
func (w *world) watchReadiness(ctx context.Context, d time.Duration) []string {
	var bad []string
	for started := time.Now(); time.Since(started) < d; time.Sleep(250 * time.Millisecond) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.url+"/readyz", nil)
		if err != nil {
			return []string{err.Error()}
		}
		asked := time.Now()
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			bad = append(bad, err.Error())
			continue
		}
		body, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			bad = append(bad, fmt.Sprintf("%v: %d %s", time.Since(asked).Round(time.Millisecond), resp.StatusCode, body))
		}
	}
	return bad
}
