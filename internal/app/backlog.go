package app

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/audit"
	"github.com/waypost/waypost/internal/queue"
)

// backlog asks the database at each scrape what waits to be done, for all processes
// together. Without the database there are no values.
type backlog struct {
	services *Services
	db       *db.DB
	queries  dbsqlc.Queries

	jobs, oldest, paused, waiting, waitingSince, broken *prometheus.Desc
}

// backlogTimeout bounds the questions of one scrape.
const backlogTimeout = 2 * time.Second

func newBacklog(s *Services, d *db.DB) *backlog {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("waypost_"+name, help, labels, nil)
	}
	return &backlog{
		services: s, db: d,
		jobs:         desc("jobs", "Jobs by queue and state, of all processes. Those that ended are counted up to 10,000.", "queue", "state"),
		oldest:       desc("queue_oldest_seconds", "For how long the first job of a queue whose time has come waits for a worker; 0 when none waits.", "queue"),
		paused:       desc("queue_paused", "1 for a queue that somebody paused.", "queue"),
		waiting:      desc("waiting", "What waits to be done, of all processes, counted up to 10,000: webhooks without an outcome, mails that are not sent, audit entries without a place in the chain.", "what"),
		waitingSince: desc("waiting_seconds", "For how long the first of the same waits.", "what"),
		broken:       desc("audit_broken", "1 when the last verification of that kind found the audit log broken.", "verification"),
	}
}

// Describe implements prometheus.Collector.
func (b *backlog) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{b.jobs, b.oldest, b.paused, b.waiting, b.waitingSince, b.broken} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (b *backlog) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), backlogTimeout)
	defer cancel()
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	if queues, err := b.services.Jobs.Queues(ctx); err == nil {
		for _, q := range queues {
			b.collectQueue(gauge, q)
		}
	}
	if row, err := b.queries.MeasureBacklog(ctx, b.db.Direct()); err == nil {
		gauge(b.waiting, float64(row.Webhooks), "webhooks")
		gauge(b.waitingSince, row.WebhooksSeconds, "webhooks")
		gauge(b.waiting, float64(row.Mails), "mails")
		gauge(b.waitingSince, row.MailsSeconds, "mails")
		gauge(b.waiting, float64(row.Audit), "audit")
	}
	if list, err := audit.Verifications(ctx, b.db); err == nil {
		for _, v := range list {
			gauge(b.broken, oneIf(v.FirstBad != nil), v.Kind)
		}
	}
}

func (b *backlog) collectQueue(gauge func(*prometheus.Desc, float64, ...string), q queue.Info) {
	for state, n := range q.Counts {
		gauge(b.jobs, float64(n), q.Name, string(state))
	}
	oldest := 0.0
	if q.OldestWaiting != nil {
		oldest = q.OldestWaiting.Seconds()
	}
	gauge(b.oldest, oldest, q.Name)
	gauge(b.paused, oneIf(q.PausedAt != nil), q.Name)
}

func oneIf(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
