package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
)

const (
	// overloadConns is far more than what may wait to be stored, in number and in
	// bytes.
	overloadConns = 3000
	overloadBody  = 48 << 10
	// overloadGrowth is the most that the median memory of the last sixth of the time
	// may be of the first's: what there is at one moment is the garbage collector's.
	overloadGrowth = 1.1
	overloadSample = 250 * time.Millisecond
	overloadSteps  = 12
)

// overload counts what became of deliveries.
type overload struct {
	stored, refused, other atomic.Int64
}

// overloadFigure sends without end over thousands of connections, each its next
// delivery when the last was answered, and watches the service's memory.
func overloadFigure(ctx context.Context, w *world) error {
	if err := w.serveHandlers(ctx); err != nil {
		return err
	}
	var o overload
	var senders sync.WaitGroup
	until := time.Now().Add(w.overload)
	failures := make(chan error, overloadConns)
	for range overloadConns {
		senders.Go(func() {
			if err := w.overloadUntil(ctx, &o, until); err != nil {
				failures <- err
			}
		})
	}
	var samples []int64
	started := time.Now()
	sample := time.NewTicker(overloadSample)
	defer sample.Stop()
	for step := 0; step < overloadSteps; {
		select {
		case err := <-failures:
			return err
		case <-sample.C:
		}
		memory := residentMemory(w.service)
		samples = append(samples, memory)
		passed := time.Since(started)
		if passed >= w.overload/overloadSteps*time.Duration(step+1) {
			step++
			fmt.Printf("   %3.0f s: %d MiB resident, %d stored, %d refused with 503, %d others\n",
				passed.Seconds(), memory>>20, o.stored.Load(), o.refused.Load(), o.other.Load())
		}
	}
	senders.Wait()
	var rows int64
	if err := w.owner.QueryRow(ctx, `select count(*) from webhook_events where status = 'processed'`).Scan(&rows); err != nil {
		return err
	}
	sixth := len(samples) / 6
	first, last := median(samples[:sixth]), median(samples[len(samples)-sixth:])
	growth := float64(last) / float64(max(first, 1))
	fmt.Printf("   %d answers 200, %d rows, %d other answers %s; memory: median %d MiB in the first sixth of the time, %d MiB in the last, %.2f (<= %.1f) %s; never more than %d MiB\n",
		o.stored.Load(), rows, o.other.Load(), verdict(rows >= o.stored.Load() && o.other.Load() == 0), first>>20, last>>20, growth, overloadGrowth, verdict(growth <= overloadGrowth), slices.Max(samples)>>20)
	return nil
}

func (w *world) overloadUntil(ctx context.Context, o *overload, until time.Time) error {
	address := strings.TrimPrefix(w.url, "http://")
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	answers := bufio.NewReader(conn)
	for time.Now().Before(until) {
		body := fmt.Appendf(nil, `{"id":"evt_%s","type":%q,"data":"%s"}`, uuid.Must(uuid.NewV7()), typeUnhandled, bytes.Repeat([]byte("waypost "), overloadBody/8))
		t := strconv.FormatInt(time.Now().Unix(), 10)
		mac := hmac.New(sha256.New, []byte(webhookSecret))
		mac.Write([]byte(t + "."))
		mac.Write(body)
		head := fmt.Appendf(nil, "POST /webhooks/payment HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nPayment-Signature: t=%s,v1=%x\r\nContent-Length: %d\r\n\r\n",
			address, t, mac.Sum(nil), len(body))
		if _, err := conn.Write(append(head, body...)); err != nil {
			return err
		}
		answer, err := http.ReadResponse(answers, nil)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, answer.Body)
		if err := errors.Join(err, answer.Body.Close()); err != nil {
			return err
		}
		switch {
		case answer.StatusCode == http.StatusOK:
			o.stored.Add(1)
		case answer.StatusCode == http.StatusServiceUnavailable && answer.Header.Get("Retry-After") != "":
			o.refused.Add(1)
		default:
			o.other.Add(1)
		}
	}
	return nil
}

// residentMemory is what a process has in memory, in bytes; 0 where there is no /proc.
func residentMemory(pid int) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text)) // proc(5): the second is resident pages
	if len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}
