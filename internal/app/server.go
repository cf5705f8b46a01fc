package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// Limits of a connection. Bodies have limits of their own where they are read.
const (
	readHeaderTimeout = 5 * time.Second
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 64 << 10
)

// listen reserves the address, so that a taken one is known before anything else
// was started.
func listen(ctx context.Context, addr string) (net.Listener, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s: %w; choose another with --addr (port 0 picks a free one)", addr, err)
	}
	return l, nil
}

// localURL is how this machine reaches l.
func localURL(l net.Listener) string {
	host, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		return "http://" + l.Addr().String()
	}
	if ip := net.ParseIP(host); ip == nil || ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, port)
}

// ending is how a server stops.
type ending struct {
	// Delay is how long requests are still taken; Begun tells that it has begun, so
	// that readiness says so.
	Delay time.Duration
	Begun *atomic.Bool
	// Grace bounds the wait for requests in flight after that.
	Grace time.Duration
}

// serveHTTP answers requests until ctx ends, and for end.Delay after that, each then on a
// connection's last; then it takes no new ones and waits up to end.Grace for those in
// flight.
func serveHTTP(ctx context.Context, l net.Listener, h http.Handler, timeout time.Duration, end ending, logger *slog.Logger) error {
	server := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if end.Begun.Load() {
				w.Header().Set("Connection", "close")
			}
			h.ServeHTTP(w, r)
		}),
		ReadHeaderTimeout: readHeaderTimeout,
		// A slow body is answered with 408 by whoever reads it; this is the backstop.
		ReadTimeout:    timeout + 15*time.Second,
		WriteTimeout:   timeout + 30*time.Second,
		IdleTimeout:    idleTimeout,
		MaxHeaderBytes: maxHeaderBytes,
		ErrorLog:       slog.NewLogLogger(logger.Handler(), slog.LevelWarn),
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(l) }()
	select {
	case err := <-failed:
		return fmt.Errorf("http server: %w", err)
	case <-ctx.Done():
	}
	end.Begun.Store(true)
	if end.Delay > 0 {
		logger.Info("stopping: readiness answers 503, requests are still taken", "delay", end.Delay.String())
		select {
		case err := <-failed:
			return fmt.Errorf("http server: %w", err)
		case <-time.After(end.Delay):
		}
	}
	logger.Info("stopping: finishing requests in flight")
	limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), end.Grace)
	defer cancel()
	if err := server.Shutdown(limit); err != nil {
		return errors.Join(fmt.Errorf("requests were still in flight after %s: %w", end.Grace, err), server.Close())
	}
	return nil
}

// ignoreClosed forgives a second close: the server closes its listener too.
func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
