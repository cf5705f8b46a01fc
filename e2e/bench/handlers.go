package main

import (
	"context"
	"errors"
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

// serveHandlers runs this program as such a service, in a process of its own, with more
// settings.
func (w *world) serveHandlers(ctx context.Context, settings ...string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	return w.start(ctx, func(address string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, self)
		cmd.Env = []string{envHandlers + "=" + address, "WAYPOST_URL=" + w.url, "WAYPOST_LOG_FORMAT=json", "PAYMENT_WEBHOOK_SECRET=" + webhookSecret, envProfile + "=" + w.profile}
		cmd.Env = append(cmd.Env, settings...)
		return cmd
	})
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
	areas, err := db.OpenAreas(ctx, db.Options{URL: c.DatabaseURL, MaxConns: c.MaxConns})
	if err != nil {
		return err
	}
	defer areas.Close()
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
		Config: c, Areas: areas, Logger: slog.New(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})), LookupSecret: os.Getenv,
		Extensions: app.Extensions{Bindings: []webhook.Binding{webhook.Handle("payment", typeNoop, noop), webhook.Handle("payment", typeEffect, effect)}},
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
