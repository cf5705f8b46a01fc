package app

import (
	"context"
	"time"

	"github.com/waypost/waypost/internal/config"
	"github.com/waypost/waypost/internal/jobs"
	"github.com/waypost/waypost/internal/mail"
)

// periodic is all that runs by itself.
func periodic(s *Services, c config.Config) []jobs.Periodic {
	return []jobs.Periodic{
		// What each instance does for webhooks depends on the handlers that it has.
		{Name: "webhooks.sweep", Description: "Handles deliveries that a crash left pending.",
			Every: 30 * time.Second, Everywhere: true, Run: s.Handling.Sweep},
		{Name: "webhooks.sweep_forwards", Description: "Handles deliveries that a crash took from their job, and hands those that an older version left to their targets.",
			Every: 10 * time.Second, Everywhere: true, Run: s.Handling.SweepForwards},
		{Name: "webhooks.announce_bindings", Description: "Tells other instances which handlers this one has, and ends events that none has one for.",
			Every: time.Minute, Everywhere: true, Run: s.Handling.Announce},
		{Name: "webhooks.forget_payloads", Description: "Empties deliveries whose retention is over: bodies, headers, texts of errors.",
			Every: time.Hour, Run: s.Handling.ForgetPayloads},
		{Name: "webhooks.prune_ledger", Description: "Deletes deliveries that were settled longer ago than the ledger is kept.",
			Every: time.Hour, Run: s.Handling.PruneLedger},
		{Name: "webhooks.redact_headers", Description: "Takes secrets out of the headers that an older program stored.",
			Every: 10 * time.Minute, Run: s.Handling.RedactHeaders},
		{Name: "webhooks.find_repeats", Description: "Finds deliveries whose body an earlier delivery of their provider has.",
			Every: time.Minute, Timeout: 30 * time.Minute, Run: s.Handling.FindRepeats},
		{Name: "webhooks.trim_rejected", Description: "Deletes old entries of the log of refused deliveries.",
			Every: time.Hour, Run: s.Handling.TrimRejected},
		{Name: "webhooks.check_alerts", Description: "Looks for providers whose deliveries fail, wait or are refused, and alerts.",
			Every: 30 * time.Second, Run: s.Alerts.Check},
		{Name: "accounts.sweep", Description: "Deletes sessions, API tokens, links and codes that are over.",
			Every: time.Hour, Run: s.Accounts.Sweep},
		{Name: "accounts.tell_of_expiry", Description: "Tells administrators of service accounts' API tokens that expire within two weeks.",
			Every: time.Hour, Run: s.Accounts.TellOfExpiry},
		{Name: "mails.end_lost", Description: "Ends mails whose job ended without sending them.",
			Every: time.Minute, Run: s.Mails.EndLost},
		{Name: "mails.sweep", Description: "Deletes old mails from the outbox.",
			Every: time.Hour, Run: s.Mails.Sweep},
		{Name: "signing_keys.rotate", Description: "Replaces the key that signs access tokens when it is 30 days old.",
			Every: time.Hour, Run: s.Tokens.Rotate},
		{Name: "statistics.destroy_salts", Description: "Destroys the salts of visitors' hashes that are over.",
			Every: time.Hour, Run: s.Ingester.DestroySalts},
		{Name: "statistics.seal_secrets", Description: "Encrypts salts and import secrets that an older program, or the former secret key, left.",
			Every: 10 * time.Minute, Run: s.Ingester.SealSecrets},
		{Name: "statistics.destroy_import_secrets", Description: "Destroys import secrets that nobody used for long.",
			Every: time.Hour, Run: s.destroyImportSecrets(c)},
		{Name: "statistics.retention", Description: "Deletes single visits whose retention is over; what was counted of them stays.",
			Every: time.Hour, Timeout: time.Hour, Run: s.Retention.Trim},
		{Name: "statistics.trim_labels", Description: "Lets go of the texts that nothing counted has any more, of each site once in 30 days.",
			Every: time.Hour, Timeout: time.Hour, Run: s.Rollups.TrimLabels},
		{Name: "statistics.queue_seals", Description: "Queues the counting of site days that are over.",
			Every: 30 * time.Second, Run: s.Rollups.QueueDue},
		{Name: "statistics.fold", Description: "Counts new events into the rollups of the current days.",
			Every: 5 * time.Second, Run: s.Rollups.FoldBusy},
		{Name: "content.index", Description: "Makes texts searchable that were there before searching, or that an older program wrote.",
			Every: time.Minute, Timeout: time.Hour, Run: s.Content.Index},
		{Name: "audit.seal", Description: "Gives audit entries that a process that is gone, or psql, left behind their places in the chain.",
			Every: time.Minute, Run: s.Audit.Seal},
		{Name: "audit.verify_recent", Description: "Verifies the newest part of the audit log.",
			Every: time.Minute, Timeout: 30 * time.Minute, Run: changesNothing(s.Audit.VerifyRecent)},
		// Once a day, whenever that is due.
		{Name: "audit.verify_whole", Description: "Verifies the whole audit log, once a day.",
			Every: time.Hour, Timeout: 6 * time.Hour, Run: changesNothing(s.Audit.VerifyDaily)},
		{Name: "audit.empty", Description: "Empties audit entries whose retention is over.",
			Every: time.Hour, Run: s.Audit.Empty},
		{Name: "uploads.sweep", Description: "Removes files that never arrived whole, and bytes that belong to no file.",
			Every: time.Hour, Timeout: 30 * time.Minute, Run: s.Uploads.Sweep},
		// By each instance, and at its start: what waits in a queue may wait for a dead one.
		{Name: "ai.sweep", Description: "Books AI calls that a crash left, at their worst case.",
			Every: 10 * time.Second, Everywhere: true, Run: s.AI.Sweep},
		{Name: "ai.forget", Description: "Deletes what was counted for API tokens that are gone.",
			Every: time.Hour, Run: s.AI.Forget},
		{Name: "security.sweep", Description: "Deletes counts of sign-ins and reports of browsers that are older than 30 days.",
			Every: time.Hour, Run: s.Security.Sweep},
		{Name: "idempotency.sweep", Description: "Deletes answers to requests with an Idempotency-Key that are older than a day.",
			Every: time.Hour, Run: s.Idempotency.Sweep},
		{Name: "sites.sweep_erasures", Description: "Goes on with the erasure of deleted sites whose job was lost.",
			Every: 10 * time.Minute, Run: s.Eraser.Sweep},
	}
}

// sweepHistory is the task of what measures this server.
func (a *App) sweepHistory() jobs.Periodic {
	return jobs.Periodic{Name: "telemetry.sweep", Description: "Deletes measurements that are older than a day.",
		Every: time.Hour, Run: a.history.Sweep}
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
		jobs.WorkByID(s.Handling.Attempt, jobs.Limits{Wait: jobs.SoonAgain}),
		jobs.Work(s.Handling.ContinueBulk, jobs.Limits{}),
		// Some two hours after the first time; the log has it anyway.
		jobs.Work(s.Alerts.Send, jobs.Limits{Attempts: 8}),
		jobs.Work(s.Alerts.Notify, jobs.Limits{Attempts: 8}),
		jobs.Work(s.Accounts.MailLink, jobs.Limits{}),
		jobs.Work(s.postExpiry, jobs.Limits{Attempts: 8}),
		jobs.Work(s.Accounts.MailEmailChange, jobs.Limits{}),
		// It gives up by itself, after a day.
		jobs.Work(s.Mails.Work, jobs.Limits{Timeout: mail.WorkTimeout, Wait: mail.RetryWait}),
		// Enough for a day of tens of millions of events.
		jobs.Work(s.Rollups.Seal, jobs.Limits{Timeout: 30 * time.Minute}),
		jobs.Work(s.Eraser.Work, jobs.Limits{}),
		// What is left after the last attempt, the sweep removes.
		jobs.Work(s.Uploads.Remove, jobs.Limits{}),
		// What fails there is the storage: an image that can't be decoded is no failure.
		jobs.Work(s.Uploads.MakeThumbnail, jobs.Limits{Timeout: 5 * time.Minute, Attempts: 12}),
	}
}
