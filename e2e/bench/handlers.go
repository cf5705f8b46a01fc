package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"runtime/pprof"
	"strings"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/internal/app"
	"github.com/waypost/waypost/internal/config"
	"github.com/waypost/waypost/internal/webhook"
)

// envHandlers makes this program a service with webhook handlers, which waypost
// itself has none of: they are code of whoever builds on it.
const envHandlers = "BENCH_HANDLERS_ADDR"

// envProfile is where that service writes its CPU profile.
const envProfile = "BENCH_HANDLERS_PROFILE"

// serveHandlers runs this program as such a service, in a process of its own.
func (w *world) serveHandlers(ctx context.Context) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		return err
	}
	w.url = "http://" + address
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), envHandlers+"="+address, "DATABASE_URL="+w.server.AppURL("bench"), "WAYPOST_URL="+w.url,
		"WAYPOST_SECRET_KEY=0123456789abcdef0123456789abcdef", "WAYPOST_LOG_LEVEL=error", "WAYPOST_LOG_FORMAT=json",
		"WAYPOST_KEY_RATE=0", "WAYPOST_SITE_RATE=0", "WAYPOST_ADDRESS_RATE=0",
		"PAYMENT_WEBHOOK_SECRET="+webhookSecret, envProfile+"="+w.profile)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		return err
	}
	w.service = cmd.Process.Pid
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	w.stops = append(w.stops, func() {
		_ = cmd.Process.Signal(os.Interrupt)
		<-exited
		fmt.Print(said.String())
	})
	return w.awaitReady(ctx, exited, &said)
}

// runHandlers is that service.
func runHandlers(ctx context.Context, address string) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	if path := os.Getenv(envProfile); path != "" {
		f, err := os.Create(path)
		if err != nil {
			return err
		}
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	environ := os.Environ()
	for i, e := range environ { // a name that no configuration knows
		if strings.HasPrefix(e, envHandlers) {
			environ[i] = "_="
		}
	}
	c, err := config.Read(environ, nil)
	if err != nil {
		return err
	}
	d, err := db.Open(ctx, db.Options{URL: c.DatabaseURL, MaxConns: c.MaxConns})
	if err != nil {
		return err
	}
	defer d.Close()
	noop := func(context.Context, *webhook.Delivery) error { return nil }
	effect := func(ctx context.Context, d *webhook.Delivery) error {
		tx, err := d.Tx(ctx)
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, insertEffect, d.Event.ID)
		return err
	}
	a, err := app.New(ctx, app.Options{
		Config: c, DB: d, Logger: slog.New(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})), LookupSecret: os.Getenv,
		Bindings: []webhook.Binding{webhook.Handle("payment", typeNoop, noop), webhook.Handle("payment", typeEffect, effect)},
	})
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return errors.Join(err, a.Close())
	}
	return errors.Join(a.Run(ctx, l), a.Close())
}
