package app

import (
	"context"
	"time"

	"github.com/waypost/waypost/internal/jobs"
)

// periodic is all that runs by itself.
func periodic(s *Services) []jobs.Periodic {
	return []jobs.Periodic{
		// Deliveries that a crash left pending, and those that are forwarded. What each
		// instance does there depends on the handlers that it has.
		{Name: "webhooks.sweep", Every: 30 * time.Second, Everywhere: true, Run: s.Receiver.Sweep},
		{Name: "webhooks.sweep_forwards", Every: 10 * time.Second, Everywhere: true, Run: s.Receiver.SweepForwards},
		// Tells other instances which handlers this one has, and ends events that none
		// has one for.
		{Name: "webhooks.announce_bindings", Every: time.Minute, Everywhere: true, Run: s.Receiver.Announce},
		{Name: "webhooks.forget_payloads", Every: time.Hour, Run: s.Receiver.ForgetPayloads},
		{Name: "webhooks.trim_rejected", Every: time.Hour, Run: s.Receiver.TrimRejected},
		{Name: "webhooks.check_alerts", Every: 30 * time.Second, Run: s.Alerts.Check},
		{Name: "accounts.sweep", Every: time.Hour, Run: s.Accounts.Sweep},
		{Name: "signing_keys.rotate", Every: time.Hour, Run: s.Tokens.Rotate},
		{Name: "statistics.destroy_salts", Every: time.Hour, Run: s.Ingester.DestroySalts},
		// Site days that are over, and rollups of open ones.
		{Name: "statistics.queue_seals", Every: 30 * time.Second, Run: s.Rollups.QueueDue},
		{Name: "statistics.fold", Every: 5 * time.Second, Run: s.Rollups.FoldBusy},
		// Audit entries that a process that is gone, or psql, left without their places.
		{Name: "audit.seal", Every: time.Minute, Run: s.Audit.Seal},
		{Name: "audit.verify_recent", Every: time.Minute, Timeout: 30 * time.Minute, Run: changesNothing(s.Audit.VerifyRecent)},
		// Once a day, whenever that is due.
		{Name: "audit.verify_whole", Every: time.Hour, Timeout: 6 * time.Hour, Run: changesNothing(s.Audit.VerifyDaily)},
		{Name: "audit.empty", Every: time.Hour, Run: s.Audit.Empty},
		// Files that never became ready, and bytes that no row has.
		{Name: "uploads.sweep", Every: time.Hour, Timeout: 30 * time.Minute, Run: s.Uploads.Sweep},
		// Deleted sites whose job was lost.
		{Name: "sites.sweep_erasures", Every: 10 * time.Minute, Run: s.Eraser.Sweep},
	}
}

// changesNothing is a task whose count is not of rows that it changed.
func changesNothing(task func(context.Context) (int, error)) func(context.Context) (int, error) {
	return func(ctx context.Context) (int, error) {
		_, err := task(ctx)
		return 0, err
	}
}

// workers are what works each kind of job.
func workers(s *Services) []jobs.Worker {
	return []jobs.Worker{
		// What fails there is the database, not the handler: the event's own row says
		// whether there is another attempt.
		jobs.WorkByID(s.Receiver.Attempt, jobs.Limits{Wait: jobs.SoonAgain}),
		jobs.Work(s.Receiver.ContinueBulk, jobs.Limits{}),
		// Some two hours after the first time; the log has it anyway.
		jobs.Work(s.Alerts.Send, jobs.Limits{Attempts: 8}),
		jobs.Work(s.Accounts.MailLink, jobs.Limits{}),
		// Enough for a day of tens of millions of events.
		jobs.Work(s.Rollups.Seal, jobs.Limits{Timeout: 30 * time.Minute}),
		jobs.Work(s.Eraser.Work, jobs.Limits{}),
		// What is left after the last attempt, the sweep removes.
		jobs.Work(s.Uploads.Remove, jobs.Limits{}),
		// What fails there is the storage: an image that can't be decoded is no failure.
		jobs.Work(s.Uploads.MakeThumbnail, jobs.Limits{Timeout: 5 * time.Minute, Attempts: 12}),
	}
}
