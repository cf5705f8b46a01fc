package pages

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/waypost/waypost/internal/account"
	"github.com/waypost/waypost/internal/audit"
	"github.com/waypost/waypost/internal/mail"
	"github.com/waypost/waypost/internal/queue"
	"github.com/waypost/waypost/internal/telemetry"
	"github.com/waypost/waypost/internal/webhook"
)

// From when on the overview asks for attention. docs/operations.md names them.
const (
	jobsWait       = 5 * time.Minute
	deliveriesWait = time.Hour // a target that is away is tried again for that long
	mailsWait      = 15 * time.Minute
	sealingWait    = 5 * time.Minute
	recentUnread   = time.Hour
	wholeUnread    = 49 * time.Hour
	// refusedAll is how many deliveries of a provider are refused in a row, and within
	// refusedLately, before it is named.
	refusedAll    = 5
	refusedLately = 24 * time.Hour
	failedMails   = 24 * time.Hour
	// diskLow and diskFull are the shares of a disk that should be free.
	diskLow, diskFull = .10, .03
	// requestsFailed is the share of an hour's requests that may fail, of fewestFailed at
	// least.
	requestsFailed = .01
	fewestFailed   = 10
	// tokensRead is how many API tokens are counted.
	tokensRead = 100
)

// several is a number of things, "10,000 or more things" where they were counted up to most.
func several(n, most int64, one, many string) string {
	switch {
	case n == 1:
		return "1 " + one
	case n >= most:
		return grouped(most) + " or more " + many
	}
	return grouped(n) + " " + many
}

func (v *overview) since(t time.Time) string { return ago(v.o.Now(), t) }

// answers reports how requests were answered.
func answers(s seen[telemetry.Summary]) seen[Report] {
	if s.err != nil {
		return seen[Report]{err: s.err}
	}
	all := s.value.All
	if all.Requests == 0 {
		return seen[Report]{at: s.at, value: Report{State: stateOK, Sentence: "No minute was measured yet; the first is stored when it is over."}}
	}
	var needs []Need
	var lately telemetry.Figures
	for _, f := range s.value.Points[max(0, len(s.value.Points)-2):] {
		lately.Requests += f.Requests
		lately.Failed += f.Failed
	}
	if lately.Failed >= fewestFailed && float64(lately.Failed) > requestsFailed*float64(lately.Requests) {
		needs = append(needs, Need{
			Text: several(int64(lately.Failed), 1<<62, "request", "requests") + " failed in this hour and the last", Bad: true,
			Href: DeskPath + "/observability?range=6h", Detail: "Of " + grouped(int64(lately.Requests)) + ". The page has their routes and request ids.",
		})
	}
	return seen[Report]{at: s.at, value: reportOf(fmt.Sprintf("%s in 24 h, half of them within %s; %s failed.",
		several(int64(all.Requests), 1<<62, "request", "requests"), took(all.P50), grouped(int64(all.Failed))), needs)}
}

func (v *overview) jobs(ctx context.Context) (Report, error) {
	if err := v.o.Runner(ctx); err != nil {
		return reportOf("This process works no jobs.", []Need{{Text: "This process works no jobs", Href: DeskPath + "/queues", Detail: "The log says why. Restart it if that does not pass.", Bad: true}}), nil
	}
	queues, err := v.o.Jobs.Queues(ctx)
	if err != nil {
		return Report{}, err
	}
	tasks, err := v.o.Jobs.Tasks(ctx)
	if err != nil {
		return Report{}, err
	}
	var needs []Need
	var waiting, running, discarded int64
	for _, q := range queues {
		waiting, running, discarded = waiting+q.Counts[queue.Available], running+q.Counts[queue.Running], discarded+q.Counts[queue.Discarded]
		if q.PausedAt != nil {
			needs = append(needs, Need{Text: "The queue " + q.Name + " is paused", Href: DeskPath + "/queues", Detail: "Since " + v.since(*q.PausedAt) + ". Its jobs wait until somebody resumes it."})
		} else if q.OldestWaiting != nil && *q.OldestWaiting > jobsWait {
			needs = append(needs, Need{Text: "Jobs of the queue " + q.Name + " wait for " + took(q.OldestWaiting.Truncate(time.Second)), Href: DeskPath + "/jobs?" + query("queue", q.Name), Detail: "There is more to do than the processes manage, or none of them works this queue."})
		}
	}
	if discarded > 0 {
		needs = append(needs, Need{Text: several(discarded, queue.MaxCounted, "job was discarded", "jobs were discarded"), Href: DeskPath + "/jobs?state=discarded", Detail: "Their last attempt failed. Run them again, or delete them."})
	}
	for _, t := range tasks {
		if t.LastOutcome == queue.Failed {
			needs = append(needs, Need{Text: "The task " + t.Name + " failed", Href: DeskPath + "/cron", Detail: short(t.LastError, 200)})
		}
	}
	sentence := grouped(waiting) + " waiting, " + grouped(running) + " running."
	if waiting+running == 0 {
		sentence = "Nothing waits."
	}
	return reportOf(sentence, needs), nil
}

func (v *overview) webhooks(ctx context.Context) (Report, error) {
	c, err := v.o.Webhooks.Condition(ctx)
	if err != nil {
		return Report{}, err
	}
	var needs []Need
	for _, p := range c.Providers {
		needs = append(needs, v.provider(p)...)
	}
	if c.Failed > 0 {
		needs = append(needs, Need{
			Text: several(c.Failed, webhook.MaxCounted, "delivery failed and waits", "deliveries failed and wait") + " for a replay",
			Href: DeskPath + "/webhooks?status=failed", Detail: "Mend what failed, and replay them there, one by one or all at once.",
		})
	}
	if c.Waiting > 0 && v.o.Now().Sub(c.WaitingSince) > deliveriesWait {
		needs = append(needs, Need{
			Text: several(c.Waiting, webhook.MaxCounted, "delivery has", "deliveries have") + " no outcome yet", Href: DeskPath + "/webhooks?status=pending",
			Detail: "The first came " + v.since(c.WaitingSince) + ".",
		})
	}
	sentence := several(int64(len(c.Providers)), 1<<62, "provider", "providers") + "; "
	if c.Waiting == 0 {
		sentence += "every delivery has its outcome."
	} else {
		sentence += several(c.Waiting, webhook.MaxCounted, "delivery waits", "deliveries wait") + " for the outcome."
	}
	return reportOf(sentence, needs), nil
}

// provider is what one provider needs.
func (v *overview) provider(p webhook.ProviderCondition) []Need {
	var needs []Need
	switch {
	case !p.SecretSet && p.Refused > 0:
		needs = append(needs, Need{Text: "Deliveries of " + p.Name + " are refused: it has no secret", Href: DeskPath + "/webhooks/providers", Detail: "Set " + p.SecretEnv + " and restart.", Bad: true})
	case p.Refused >= refusedAll && v.o.Now().Sub(p.RefusedAt) < refusedLately:
		since := "Nothing of it was ever taken."
		if !p.StoredAt.IsZero() {
			since = "The last one that was new came " + v.since(p.StoredAt) + "."
		}
		needs = append(needs, Need{
			Text: "The last " + several(p.Refused, webhook.MaxRefused, "delivery", "deliveries") + " of " + p.Name + " were all refused", Href: DeskPath + "/webhooks/rejected?" + query("provider", p.Name),
			Detail: since + " Latest reason: " + strings.ReplaceAll(p.Reason, "_", " ") + ".", Bad: true,
		})
	}
	if p.FailureStreak > 0 {
		needs = append(needs, Need{Text: "The newest " + several(p.FailureStreak, 1<<62, "delivery", "deliveries") + " of " + p.Name + " failed", Href: DeskPath + "/webhooks?" + query("provider", p.Name), Detail: "What handles them, or their target, is not well.", Bad: true})
	}
	return needs
}

func (v *overview) statistics(ctx context.Context) (Report, error) {
	days, ended, err := v.o.Statistics.Overdue(ctx)
	if err != nil {
		return Report{}, err
	}
	var needs []Need
	if days > 0 {
		needs = append(needs, Need{
			Text: several(days, 1000, "day of a site waits", "days of sites wait") + " to be counted", Href: DeskPath + "/jobs?queue=" + queue.Rollups,
			Detail: "The first ended " + v.since(ended) + ". Numbers are right meanwhile, but slower.",
		})
	}
	return reportOf("Every day that is over is counted.", needs), nil
}

func (v *overview) mails(ctx context.Context) (Report, error) {
	c, err := v.o.Mails.Condition(ctx, v.o.Now().Add(-failedMails))
	if err != nil {
		return Report{}, err
	}
	if c.Off {
		return Report{State: stateOff, Sentence: "No mail leaves: WAYPOST_MAIL_DRIVER is none."}, nil
	}
	var needs []Need
	if c.Failed > 0 {
		needs = append(needs, Need{Text: several(c.Failed, mail.MaxCounted, "mail", "mails") + " of the last 24 h failed", Href: DeskPath + "/mails?status=failed", Detail: "Each says why, and can be sent again."})
	}
	switch {
	case c.Stuck > 0:
		needs = append(needs, Need{Text: several(c.Stuck, mail.MaxCounted, "mail", "mails") + " could not be sent yet", Href: DeskPath + "/mails?status=queued", Detail: "Three attempts or more have failed; the first waits since " + v.since(c.WaitingSince) + ".", Bad: true})
	case c.Waiting > 0 && v.o.Now().Sub(c.WaitingSince) > mailsWait:
		needs = append(needs, Need{Text: several(c.Waiting, mail.MaxCounted, "mail waits", "mails wait") + " to be sent", Href: DeskPath + "/mails?status=queued", Detail: "The first since " + v.since(c.WaitingSince) + "."})
	}
	sentence := "Every mail has left."
	if c.Waiting > 0 {
		sentence = several(c.Waiting, mail.MaxCounted, "mail waits", "mails wait") + " to be sent."
	}
	return reportOf(sentence, needs), nil
}

func (v *overview) audit(ctx context.Context) (Report, error) {
	c, err := v.o.Audit.Condition(ctx)
	if err != nil {
		return Report{}, err
	}
	now, href := v.o.Now(), DeskPath+"/audit/chain"
	var needs []Need
	sentence := "It was not verified yet; the first time is within the hour."
	for _, k := range c.Verifications {
		most, what := recentUnread, "The newest part of the audit log"
		if k.Kind == audit.KindWhole {
			most, what = wholeUnread, "The audit log as a whole"
		}
		switch {
		case k.FirstBad != nil:
			at := "an entry without a place"
			if k.FirstBad.Seq != nil {
				at = "entry " + strconv.FormatInt(*k.FirstBad.Seq, 10)
			}
			needs = append(needs, Need{Text: "The audit log is broken at " + at, Href: href, Detail: "Found " + v.since(k.At) + ": " + k.FirstBad.Reason + ". Read docs/audit.md before you change anything.", Bad: true})
		case now.Sub(k.At) > most:
			needs = append(needs, Need{Text: what + " was not verified for long", Href: href, Detail: "The last time was " + v.since(k.At) + "."})
		}
		sentence = "Verified up to entry " + grouped(k.ToSeq) + ", " + v.since(k.At) + "."
	}
	if c.Waiting > 0 && now.Sub(c.WaitingSince) > sealingWait {
		needs = append(needs, Need{Text: several(c.Waiting, 10_000, "audit entry waits", "audit entries wait") + " for a place in the chain", Href: href, Detail: "The first since " + v.since(c.WaitingSince) + ".", Bad: true})
	}
	return reportOf(sentence, needs), nil
}

func (v *overview) tokens(ctx context.Context) (Report, error) {
	list, err := v.o.Tokens.ExpiringTokens(ctx, tokensRead)
	if err != nil {
		return Report{}, err
	}
	var needs []Need
	if len(list) > 0 {
		first := list[0]
		needs = append(needs, Need{
			Text: several(int64(len(list)), tokensRead, "API token of a service account expires", "API tokens of service accounts expire") + " soon", Href: DeskPath + "/service-accounts/" + strconv.FormatInt(first.ServiceAccount, 10),
			Detail: fmt.Sprintf("First %s of %s, %s. Replace it there.", short(first.Name, 60), short(first.AccountName, 60), v.since(first.ExpiresAt)),
		})
	}
	return reportOf("No service account's token ends within "+strconv.Itoa(int(account.TokenExpiryNotice.Hours())/24)+" days.", needs), nil
}

func (v *overview) disk(context.Context) (Report, error) {
	list, err := v.o.Disks()
	if err != nil {
		return Report{}, err
	}
	var needs []Need
	var free []string
	for _, d := range list {
		free = append(free, fmt.Sprintf("%s (%d %%) free at %s", inBytes(Size(d.Free)), int(100*d.Share()), d.Dir))
		if d.Share() < diskLow {
			needs = append(needs, Need{
				Text: fmt.Sprintf("The disk of %s is nearly full", d.Dir), Href: DeskPath + "/observability", Bad: d.Share() < diskFull,
				Detail: fmt.Sprintf("%s of %s are free. Make room, or give it a larger disk.", inBytes(Size(d.Free)), inBytes(Size(d.Total))),
			})
		}
	}
	return reportOf(strings.Join(free, "; ")+".", needs), nil
}
