package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/internal/queue"
	"github.com/waypost/waypost/internal/site"
	"github.com/waypost/waypost/internal/stats"
)

// loadedSite is a site with traffic and a key to ask about it.
type loadedSite struct {
	ID      uuid.UUID
	SiteKey string
	Key     string // reads
	Events  int
}

// filled is what the sites of a figure hold, up to when.
type filled struct {
	At    time.Time
	Sizes []int // asked for, of each site
	Sites []loadedSite
}

// fill makes a site of each size, or finds those that an earlier run kept.
func (w *world) fill(ctx context.Context, days int, of ...int) (filled, error) {
	f := filled{At: time.Now(), Sizes: of}
	if w.kept {
		var earlier filled
		raw, err := os.ReadFile(w.data + ".json")
		if err == nil {
			err = json.Unmarshal(raw, &earlier)
		}
		switch {
		case err == nil && slices.Equal(earlier.Sizes, of):
			return earlier, nil
		case !errors.Is(err, os.ErrNotExist):
			return filled{}, errors.Join(fmt.Errorf("%s holds something else than sites of %v events: remove it", w.data, of), err)
		}
	}
	for i, n := range of {
		s, err := w.newSite(ctx, fmt.Sprintf("%d events", n))
		if err != nil {
			return filled{}, err
		}
		if err := w.load(ctx, &s, newTraffic(s.ID, uint64(i+1)), n, days, f.At); err != nil {
			return filled{}, err
		}
		f.Sites = append(f.Sites, s)
	}
	if !w.kept {
		return f, nil
	}
	raw, err := json.Marshal(f)
	if err != nil {
		return filled{}, err
	}
	return f, os.WriteFile(w.data+".json", raw, 0o600)
}

func (w *world) newSite(ctx context.Context, name string) (loadedSite, error) {
	s, err := w.sites.Create(ctx, name, "example.com", "UTC")
	if err != nil {
		return loadedSite{}, err
	}
	_, secret, err := w.sites.CreateKey(ctx, s.ID, "bench", site.ScopeRead)
	return loadedSite{ID: s.ID, SiteKey: s.Key, Key: secret}, err
}

// load fills a site with n events over the given number of days up to now: rows
// of events and sessions by COPY, and from them, by SQL, the calendar and the
// visitors' heads, as ingestion leaves them. Rollups are then made by the
// product.
func (w *world) load(ctx context.Context, s *loadedSite, t *traffic, n, days int, now time.Time) error {
	started := time.Now()
	today := now.UTC().Truncate(24 * time.Hour)
	if err := w.owner.QueryRow(ctx, `select coalesce(max(id), 0) from sessions`).Scan(&t.session); err != nil {
		return err
	}
	for d := days - 1; d >= 0; d-- {
		day := today.AddDate(0, 0, -d)
		if err := w.copyDay(ctx, t, day, n/days, now); err != nil {
			return err
		}
		s.Events += len(t.events)
	}
	if _, err := w.owner.Exec(ctx, `select setval('sessions_id_seq', $1)`, t.session); err != nil {
		return err
	}
	if _, err := w.owner.Exec(ctx, `insert into session_heads (site_id, day, visitor, session_id, last_at)
		select distinct on (site_id, day, visitor) site_id, day, visitor, id, last_at from sessions where site_id = $1
		order by site_id, day, visitor, last_at desc`, s.ID); err != nil {
		return err
	}
	if _, err := w.owner.Exec(ctx, `vacuum (analyze) events, sessions, session_heads, site_days`); err != nil {
		return err
	}
	loaded := time.Now()
	var due dueDays
	r, err := stats.NewRollups(stats.RollupsOptions{DB: w.db, Sites: w.sites, Jobs: &due})
	if err != nil {
		return err
	}
	sealed, err := r.QueueDue(ctx)
	if err != nil {
		return err
	}
	for _, job := range due {
		if err := r.Seal(ctx, job); err != nil {
			return err
		}
	}
	atSealed := time.Now()
	folded := 0
	for n := 1; n > 0; folded += n {
		if n, err = r.FoldBusy(ctx); err != nil {
			return err
		}
	}
	_, err = w.owner.Exec(ctx, `vacuum (analyze) rollup_days, rollup_hours, rollup_counts, rollup_labels, rollup_blocks, rollup_visitors, rollup_columns, session_heads`)
	fmt.Printf("   %d events over %d days: loaded in %v, %d days sealed in %v, %d visitors folded in %v\n", s.Events, days,
		loaded.Sub(started).Round(time.Second), sealed, atSealed.Sub(loaded).Round(time.Second), folded, time.Since(atSealed).Round(time.Second))
	return err
}

// dueDays are the days that are to be sealed, in the place of the queue.
type dueDays []stats.SealJob

func (d *dueDays) InsertUnique(_ context.Context, _ pgx.Tx, _ string, jobs []queue.Job) error {
	for _, job := range jobs {
		*d = append(*d, job.(stats.SealJob))
	}
	return nil
}

func (w *world) copyDay(ctx context.Context, t *traffic, day time.Time, n int, now time.Time) error {
	t.makeDay(day, n, now)
	if _, err := w.owner.Exec(ctx, `select ensure_events_month($1)`, day); err != nil {
		return err
	}
	return pgx.BeginFunc(ctx, w.owner, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `insert into site_days (site_id, day, starts_at, ends_at) values ($1, $2, $3, $4)`, t.site, day, day, day.AddDate(0, 0, 1))
		if err != nil {
			return err
		}
		if _, err := tx.CopyFrom(ctx, pgx.Identifier{"events"}, eventColumns, pgx.CopyFromRows(t.events)); err != nil {
			return err
		}
		_, err = tx.CopyFrom(ctx, pgx.Identifier{"sessions"}, sessionColumns, pgx.CopyFromRows(t.sessions))
		return err
	})
}
