package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
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

// serveHTTP answers requests until ctx ends, then takes no new ones and waits up
// to grace for those in flight.
func serveHTTP(ctx context.Context, l net.Listener, h http.Handler, timeout, grace time.Duration, logger *slog.Logger) error {
	server := &http.Server{
		Handler:           h,
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
	logger.Info("stopping: finishing requests in flight")
	limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	if err := server.Shutdown(limit); err != nil {
		return errors.Join(fmt.Errorf("requests were still in flight after %s: %w", grace, err), server.Close())
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
