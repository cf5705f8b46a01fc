package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/internal/stats"
	"github.com/waypost/waypost/internal/stats/calendar"
)

// explain prints PostgreSQL's plan of each query behind the statistics'
// endpoints, as auto_explain has it.
func (w *world) explain(ctx context.Context, s loadedSite, from, to string) error {
	admin, err := pgx.Connect(ctx, w.server.AdminURL("bench"))
	if err != nil {
		return err
	}
	defer func() { _ = admin.Close(ctx) }()
	for _, setting := range []string{
		"session_preload_libraries = 'auto_explain'", "auto_explain.log_min_duration = 0", "auto_explain.log_analyze = on", "auto_explain.log_buffers = on",
	} {
		if _, err := admin.Exec(ctx, "alter database bench set "+setting); err != nil {
			return err
		}
	}
	var data string
	if err := admin.QueryRow(ctx, "show data_directory").Scan(&data); err != nil {
		return err
	}
	log, err := os.Open(filepath.Join(filepath.Dir(data), "server.log"))
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	d, err := db.Open(ctx, db.Options{URL: w.server.AppURL("bench"), MaxConns: 1})
	if err != nil {
		return err
	}
	defer d.Close()
	service, err := stats.NewService(stats.ServiceOptions{DB: d})
	if err != nil {
		return err
	}
	q := stats.Query{SiteID: s.ID, Zones: calendar.Always(time.UTC), From: from, To: to, Limit: 50}
	for _, question := range []struct {
		name string
		ask  func() error
	}{
		{"summary", func() error { _, err := service.Summary(ctx, q); return err }},
		{"timeseries", func() error { _, err := service.Timeseries(ctx, q, ""); return err }},
		{"pages", func() error {
			_, err := service.Breakdowns(ctx, q, stats.ByPage, stats.ByEntry, stats.ByExit)
			return err
		}},
		{"events of a name", func() error { _, err := service.CustomEvents(ctx, q, "event-1"); return err }},
		{"realtime", func() error { _, err := service.Realtime(ctx, q); return err }},
	} {
		if err := question.ask(); err != nil { // what a connection's first query costs is of no interest
			return err
		}
		if _, err := log.Seek(0, io.SeekEnd); err != nil {
			return err
		}
		if err := question.ask(); err != nil {
			return err
		}
		plans, err := io.ReadAll(log)
		if err != nil {
			return err
		}
		fmt.Printf("-- %s\n%s\n", question.name, plans)
	}
	return nil
}
