package main

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/google/uuid"
)

const (
	importLines  = 300_000
	importDays   = 30
	importRounds = 3
	importLeast  = 0.4
)

// importFigure alternates imports of a month's file by the command line, its start
// included, with COPY of the very rows that came of them.
func importFigure(ctx context.Context, w *world) error {
	if err := w.serve(ctx); err != nil {
		return err
	}
	until := time.Now().UTC().Truncate(24 * time.Hour)
	for d := range importDays {
		if _, err := w.owner.Exec(ctx, `select ensure_events_month($1)`, until.AddDate(0, 0, -d)); err != nil {
			return err
		}
	}
	for _, format := range []string{"combined", "ndjson"} {
		var ratios []float64
		for round := range importRounds {
			got, took, err := w.importRound(ctx, format, uint64(round), until)
			if err != nil {
				return err
			}
			limit, err := w.copyRows(ctx, got, "imported_lines")
			if err != nil {
				return err
			}
			perSecond := float64(got.Events) / took.Seconds()
			fmt.Printf("   %s, round %d: imported %.0f lines/s; COPY %.0f/s\n", format, round+1, perSecond, limit)
			ratios = append(ratios, perSecond/limit)
		}
		middle := slices.Sorted(slices.Values(ratios))[importRounds/2]
		fmt.Printf("   %s: %.2f of COPY (>= %.1f) %s\n", format, middle, importLeast, verdict(middle >= importLeast))
	}
	return nil
}

// importRound imports a file for a site of its own.
func (w *world) importRound(ctx context.Context, format string, seed uint64, until time.Time) (loadedSite, time.Duration, error) {
	s, err := w.newSite(ctx, format)
	if err != nil {
		return s, 0, err
	}
	file := filepath.Join(w.dir, "import."+format)
	if err := writeImport(file, format, s.ID, seed, until); err != nil {
		return s, 0, err
	}
	started := time.Now()
	cmd := exec.CommandContext(ctx, w.binary(), "import", "--site", s.ID.String(), "--format", format, file)
	cmd.Env = append(os.Environ(), "DATABASE_URL="+w.server.AppURL("bench"), "WAYPOST_SECRET_KEY="+benchSecret)
	said, err := cmd.CombinedOutput()
	took := time.Since(started)
	if err != nil {
		return s, 0, fmt.Errorf("import: %w\n%s", err, said)
	}
	err = w.owner.QueryRow(ctx, `select count(*) from events where site_id = $1`, s.ID).Scan(&s.Events)
	if err == nil && s.Events != importLines {
		err = fmt.Errorf("of %d lines %d are events\n%s", importLines, s.Events, said)
	}
	return s, took, err
}

// writeImport writes a month of pageviews in the order of time, of 49,152 addresses.
func writeImport(file, format string, site uuid.UUID, seed uint64, until time.Time) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(f)
	t := newTraffic(site, seed)
	random := rand.New(rand.NewPCG(seed, 11))
	from, step := until.AddDate(0, 0, 1-importDays), (importDays-1)*24*time.Hour/importLines
	for i := range importLines {
		at, path, source := from.Add(time.Duration(i)*step), t.label("path"), t.label("source")
		address, agent := fmt.Sprintf("198.51.%d.%d", random.IntN(64), random.IntN(256)), collectAgents[random.IntN(len(collectAgents))]
		if format == "ndjson" {
			fmt.Fprintf(out, `{"event_id":"%d-%d","ts":%q,"url":"https://example.com%s","referrer":"https://%s/","ip":%q,"user_agent":%q}`+"\n",
				seed, i, at.Format(time.RFC3339Nano), path, source, address, agent)
			continue
		}
		fmt.Fprintf(out, "%s - - [%s] \"GET %s HTTP/1.1\" 200 5120 \"https://%s/\" %q\n", address, at.Format("02/Jan/2006:15:04:05 -0700"), path, source, agent)
	}
	if err := out.Flush(); err != nil {
		return err
	}
	return f.Close()
}
