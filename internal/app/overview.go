package app

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/waypost/waypost/internal/config"
	"github.com/waypost/waypost/internal/pages"
	"github.com/waypost/waypost/internal/telemetry"
)

// overview is what the first operator page asks.
func (a *App) overview() pages.OverviewOptions {
	s := a.services
	dirs := writtenDirs(a.options.Config)
	return pages.OverviewOptions{
		Checks: []pages.Check{
			{Name: "Database", Href: pages.DeskPath + "/database", Ask: a.reportDatabase},
			{Name: "Search", Href: pages.DeskPath + "/cron", Ask: a.reportSearch},
			{Name: "Files", Href: pages.DeskPath + "/observability", Ask: a.reportStorage},
		},
		// a has them only once the pages are made.
		Runner:       func(ctx context.Context) error { return a.jobs.Check(ctx) },
		Jobs:         s.Jobs,
		Webhooks:     s.Webhooks,
		Statistics:   s.Stats,
		Mails:        s.Mails,
		Audit:        s.Audit,
		Tokens:       s.Accounts,
		Disks:        func() ([]telemetry.Disk, error) { return telemetry.Disks(dirs()) },
		Measurements: a.history,
		Logger:       a.options.Logger,
	}
}

// reportDatabase asks over readiness' own connection, as readiness does. That it can't be
// asked is the report.
func (a *App) reportDatabase(ctx context.Context) (pages.Report, error) {
	began := time.Now()
	const href = pages.DeskPath + "/database"
	wrong := pages.Badge{Text: "wrong", Tone: "bad"}
	if err := a.options.Areas.Readiness.Ping(ctx); err != nil {
		return pages.Report{}, err
	}
	took := time.Since(began)
	if err := a.options.Areas.Readiness.CheckMigrated(ctx); err != nil {
		a.options.Logger.WarnContext(ctx, "the database's schema", "error", err)
		return pages.Report{State: wrong, Sentence: "Its schema is not one that this program works on.", Needs: []pages.Need{
			{Text: "The database lacks migrations, or is too new for this program", Href: href, Detail: "Run `waypost migrate status`; the log says more.", Bad: true},
		}}, nil
	}
	return pages.Report{State: pages.Badge{Text: "ok", Tone: "good"}, Sentence: fmt.Sprintf("It answers within %.1f ms; all migrations are applied.", max(.1, took.Seconds()*1000))}, nil
}

func (a *App) reportSearch(ctx context.Context) (pages.Report, error) {
	n, err := a.services.Content.Unsearchable(ctx, a.options.Areas.Requests)
	if err != nil {
		return pages.Report{}, err
	}
	if n > 0 {
		return pages.Report{State: pages.Badge{Text: "indexing", Tone: "wait"}, Sentence: fmt.Sprintf("At least %d texts are not found yet; the task content.index makes up for it.", n)}, nil
	}
	return pages.Report{State: pages.Badge{Text: "ok", Tone: "good"}, Sentence: "Searches find every post and blog."}, nil
}

func (a *App) reportStorage(ctx context.Context) (pages.Report, error) {
	switch state := a.storage.tell(ctx); state {
	case "ok":
		return pages.Report{State: pages.Badge{Text: "ok", Tone: "good"}, Sentence: "The storage of files answers."}, nil
	case "failed":
		return pages.Report{State: pages.Badge{Text: "wrong", Tone: "bad"}, Sentence: "Uploads and downloads are answered with 503.", Needs: []pages.Need{
			{Text: "The storage of files does not work", Href: pages.DeskPath + "/observability", Detail: "Uploads and downloads are answered with 503. The log says why.", Bad: true},
		}}, nil
	case "not configured":
		return pages.Report{State: pages.Badge{Text: "off", Tone: "quiet"}, Sentence: "No storage is configured; uploads are answered with 503."}, nil
	default:
		return pages.Report{State: pages.Badge{Text: state, Tone: "quiet"}, Sentence: "It is being asked."}, nil
	}
}

// writtenDirs returns a function that lists the directories that this process writes to,
// of those that there are.
func writtenDirs(c config.Config) func() []string {
	list := []string{c.DataDir}
	if c.Uploads.Dir != "" {
		list = append(list, c.Uploads.Dir)
	}
	if c.Audit.CheckpointFile != "" {
		list = append(list, filepath.Dir(c.Audit.CheckpointFile))
	}
	list = append(list, os.TempDir()) // files that are being uploaded
	return func() []string {
		return slices.DeleteFunc(slices.Clone(list), func(dir string) bool {
			_, err := os.Stat(dir)
			return err != nil
		})
	}
}

// tallies are what the overview's charts count. Periodic tasks are no jobs there: some run
// every few seconds.
func (s *Services) tallies() []telemetry.Tally {
	tasks := []string{"telemetry.sweep"}
	for _, p := range periodic(s, config.Config{}) {
		tasks = append(tasks, p.Name)
	}
	is := func(label string, values ...string) func(map[string]string) bool {
		return func(labels map[string]string) bool { return slices.Contains(values, labels[label]) }
	}
	ended := func(outcome string) func(map[string]string) bool {
		return func(labels map[string]string) bool {
			return labels["outcome"] == outcome && !slices.Contains(tasks, labels["name"])
		}
	}
	const handlings, hits, jobs, mails = "waypost_webhook_handler_seconds", "waypost_collect_hits_total", "waypost_job_seconds", "waypost_mails_total"
	return []telemetry.Tally{
		{Name: pages.CountDeliveriesFailed, Family: handlings, Where: is("outcome", "failed")},
		{Name: pages.CountHits, Family: hits, Where: is("outcome", "counted")},
		{Name: pages.CountHitsDropped, Family: hits, Where: is("outcome", "dropped", "invalid")},
		{Name: pages.CountHitsLost, Family: hits, Where: is("outcome", "unstored")},
		{Name: pages.CountJobs, Family: jobs, Where: ended("ok")},
		{Name: pages.CountJobsFailed, Family: jobs, Where: ended("failed")},
		{Name: pages.CountMails, Family: mails, Where: is("outcome", "sent")},
		{Name: pages.CountMailsFailed, Family: mails, Where: is("outcome", "refused", "given_up")},
	}
}
