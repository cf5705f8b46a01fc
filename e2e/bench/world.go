package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/embedded"
	"github.com/waypost/waypost/internal/site"
)

// benchSecret is the installation's secret key.
const benchSecret = "a secret key for measuring, longer than 32 bytes"

// world is a PostgreSQL with the durability that an installation has, an empty
// migrated database in it, and waypost, once it is started.
type world struct {
	sizes
	dir     string
	data    string // the server's
	kept    bool   // data outlives this run
	server  *embedded.Server
	db      *db.DB
	owner   *pgxpool.Pool
	sites   *site.Service
	url     string // of waypost
	service int    // its process
	stops   []func()
}

func newWorld(ctx context.Context, figure string, s sizes) (*world, error) {
	dir, err := os.MkdirTemp("", "waypost-bench-")
	if err != nil {
		return nil, err
	}
	w := &world{sizes: s, dir: dir, data: filepath.Join(dir, "db")}
	if w.kept = s.data != "" && (figure == "stats" || figure == "stats-filtered" || figure == "stats-report" || figure == "neighbours" || figure == "search" || figure == "pages" || figure == "lists"); w.kept {
		w.data = filepath.Join(s.data, figure)
	}
	w.stops = append(w.stops, func() { _ = os.RemoveAll(dir) })
	// Built first: what can't be built isn't worth loading a database for.
	if err := errors.Join(w.build(ctx), w.open(ctx)); err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

func (w *world) open(ctx context.Context) error {
	var err error
	w.server, err = embedded.Start(ctx, embedded.Options{DataDir: w.data, Settings: map[string]string{
		"shared_buffers": "512MB", "max_wal_size": "8GB", "checkpoint_timeout": "15min",
	}})
	if err != nil {
		return err
	}
	w.stops = append(w.stops, func() {
		_ = w.server.Stop(context.WithoutCancel(ctx))
		if !w.kept {
			_ = embedded.Remove(context.WithoutCancel(ctx), w.data)
		}
	})
	const name = "bench"
	if err := w.server.EnsureDatabase(ctx, name); err != nil {
		return err
	}
	if _, err := db.Upgrade(ctx, db.UpgradeOptions{OwnerURL: w.server.OwnerURL(name)}); err != nil {
		return err
	}
	if w.db, err = db.Open(ctx, db.Options{URL: w.server.AppURL(name), MaxConns: 8}); err != nil {
		return err
	}
	w.stops = append(w.stops, w.db.Close)
	if w.owner, err = pgxpool.New(ctx, w.server.OwnerURL(name)+"&options=-c%20waypost.actor_type%3Dsystem%20-c%20waypost.actor_id%3Dbench"); err != nil {
		return err
	}
	w.stops = append(w.stops, w.owner.Close)
	w.sites, err = site.New(site.Options{DB: w.db, Logger: slog.New(slog.DiscardHandler)})
	return err
}

func (w *world) close() {
	for i := len(w.stops) - 1; i >= 0; i-- {
		w.stops[i]()
	}
	w.stops = nil
}

// binary is where waypost is built.
func (w *world) binary() string { return filepath.Join(w.dir, "waypost") }

func (w *world) build(ctx context.Context) error {
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", w.binary(), "./cmd/waypost").CombinedOutput(); err != nil {
		return fmt.Errorf("build: %w\n%s", err, out)
	}
	return nil
}

// serve runs waypost as an installation would.
func (w *world) serve(ctx context.Context) error {
	return w.start(ctx, func(address string) *exec.Cmd {
		return exec.CommandContext(ctx, w.binary(), "serve", "--addr", address, "--url", w.url)
	})
}

// start runs a service at an address that is free, without rate limits, and waits
// until it serves.
func (w *world) start(ctx context.Context, service func(address string) *exec.Cmd) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		return err
	}
	w.url = "http://" + address
	cmd := service(address)
	cmd.Env = append(os.Environ(), cmd.Env...)
	cmd.Env = append(cmd.Env, "DATABASE_URL="+w.server.AppURL("bench"), "WAYPOST_SECRET_KEY="+benchSecret,
		"WAYPOST_LOG_LEVEL=error", "WAYPOST_KEY_RATE=0", "WAYPOST_SITE_RATE=0", "WAYPOST_ADDRESS_RATE=0")
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

// awaitReady waits until the service at w.url serves; said is what it said when it
// ended instead.
func (w *world) awaitReady(ctx context.Context, exited chan error, said *bytes.Buffer) error {
	for {
		resp, err := http.Get(w.url + "/readyz")
		if err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case err := <-exited:
			exited <- err
			return errors.Join(errors.New("waypost ended"), err, errors.New(said.String()))
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
}
