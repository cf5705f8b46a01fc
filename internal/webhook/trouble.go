package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/queue"
)

const (
	// troubleWindow is how far back a failure rate looks, and how long after the latest
	// refused delivery a provider counts as refused.
	troubleWindow = time.Hour
	// troubleEvents is among how many of a provider's newest events a failure rate is
	// taken, at most, and troubleLeast of at least how many.
	troubleEvents, troubleLeast = 1000, 20
	// calmer is by what a failure rate must fall below the one alerted about to be over.
	calmer = 2
)

// troubleKind is a kind of trouble as alerts and the database name it.
type troubleKind string

const (
	streakTrouble  troubleKind = "failing"
	backlogTrouble troubleKind = "backlog"
	refusedTrouble troubleKind = "refused"
	rateTrouble    troubleKind = "failure_rate"
)

// over says for people that a trouble has ended.
var over = map[troubleKind]string{
	streakTrouble:  "The webhook events of %s no longer fail one after the other.",
	backlogTrouble: "The webhook events of %s no longer wait for long.",
	refusedTrouble: "The deliveries of %s are no longer refused.",
	rateTrouble:    "Fewer of the webhook events of %s fail.",
}

var troubleTitles = map[troubleKind]string{
	backlogTrouble: "Webhook events wait", refusedTrouble: "Webhook deliveries are refused", rateTrouble: "Many webhook events fail",
}

// notice is what operators are told about a provider.
type notice struct {
	kind      troubleKind
	recovered bool
	data      noticeData
}

// noticeData is a notice on the wire. Which numbers it has depends on its type.
type noticeData struct {
	Provider string     `json:"provider"`
	Waiting  int64      `json:"waiting,omitempty"`
	OldestAt *time.Time `json:"oldest_at,omitempty"`
	Refused  int64      `json:"refused,omitempty"`
	Reason   string     `json:"reason,omitempty"`
	Handled  int64      `json:"handled,omitempty"`
	Failed   int64      `json:"failed,omitempty"`
	RaisedAt *time.Time `json:"raised_at,omitempty"`
	Message  string     `json:"message"`

	stillHigh bool // of a failure rate: below the alert's, but not over
}

// eventType is the notice's type on the wire.
func (n notice) eventType() string {
	if n.recovered {
		return "waypost.webhooks." + string(n.kind) + ".recovered"
	}
	return "waypost.webhooks." + string(n.kind)
}

func (n notice) title() string {
	if n.recovered {
		return "Over: webhooks of " + n.data.Provider
	}
	return troubleTitles[n.kind]
}

func recovered(kind troubleKind, provider string) notice {
	return notice{kind: kind, recovered: true, data: noticeData{Provider: provider, Message: fmt.Sprintf(over[kind], provider)}}
}

// NoticeJob is the job that posts a notice.
type NoticeJob struct {
	ID   uuid.UUID       `json:"id"` // the same at every attempt
	Type string          `json:"type"`
	At   time.Time       `json:"at"`
	Data json.RawMessage `json:"data"`
}

// Kind names the job in the queue.
func (NoticeJob) Kind() string { return "webhooks.notice" }

// Notify posts a notice; it is the work of a NoticeJob. An error, which shows no secret,
// means that it should be tried again.
func (a *Alerts) Notify(ctx context.Context, job NoticeJob) error {
	return a.Post(ctx, job.ID, job.Type, job.At, job.Data)
}

// notify logs a notice and, with tx's commit, mails and posts it.
func (a *Alerts) notify(ctx context.Context, tx pgx.Tx, n notice, at time.Time) error {
	a.o.Logger.WarnContext(ctx, "webhooks: "+n.data.Message, "provider", n.data.Provider, "alert", n.eventType())
	id, err := uuid.NewV7()
	if err != nil {
		return fmt.Errorf("webhook: new id: %w", err)
	}
	if a.o.Mail != nil {
		if _, err := a.o.Mail.Alert(ctx, tx, "webhooks "+id.String(), n.title(), n.data.Message); err != nil {
			return err
		}
	}
	if a.o.URL == "" {
		return nil
	}
	data, err := json.Marshal(n.data)
	if err != nil {
		return fmt.Errorf("webhook: notice: %w", err)
	}
	_, err = a.o.Jobs.InsertMany(ctx, tx, []queue.Entry{{Job: NoticeJob{ID: id, Type: n.eventType(), At: at, Data: data}}})
	return err
}

// checkTroubles raises an alert for each trouble that a registered provider has and that
// none was raised about, tells which are over, and returns how many it raised.
func (a *Alerts) checkTroubles(ctx context.Context) (int, error) {
	now := a.o.Now().UTC()
	raised := 0
	err := a.o.DB.InTx(ctx, identity.Step(ctx, "webhook-alerts"), func(ctx context.Context, tx pgx.Tx) error {
		raised = 0
		for _, look := range []struct {
			kind troubleKind
			on   bool
			find func(context.Context, pgx.Tx, []string, time.Time) ([]noticeData, error)
		}{
			{backlogTrouble, a.o.MaxWait > 0, a.backlogs},
			{refusedTrouble, a.o.Refused > 0, a.refused},
			{rateTrouble, a.o.FailureRate > 0, a.failureRates},
		} {
			if !look.on {
				continue
			}
			names := a.o.Registry.names
			found, err := look.find(ctx, tx, names, now)
			if err != nil {
				return err
			}
			n, err := a.settle(ctx, tx, look.kind, names, found, now)
			raised += n
			if err != nil {
				return err
			}
		}
		return nil
	})
	return raised, err
}

// settle claims the troubles that are new, and ends those of the providers named that
// have none any more.
func (a *Alerts) settle(ctx context.Context, tx pgx.Tx, kind troubleKind, names []string, found []noticeData, now time.Time) (int, error) {
	raised := 0
	troubled := []string{}
	for _, data := range found {
		troubled = append(troubled, data.Provider)
		if data.stillHigh {
			continue
		}
		claimed, err := a.queries.RaiseWebhookTrouble(ctx, tx, data.Provider, string(kind), now)
		if err != nil {
			return raised, err
		}
		if claimed > 0 {
			raised++
			if err := a.notify(ctx, tx, notice{kind: kind, data: data}, now); err != nil {
				return raised, err
			}
		}
	}
	ended, err := a.queries.EndWebhookTroubles(ctx, tx, string(kind), names, troubled)
	if err != nil {
		return raised, err
	}
	for _, row := range ended {
		n := recovered(kind, row.Provider)
		at := row.RaisedAt.UTC()
		n.data.RaisedAt = &at
		if err := a.notify(ctx, tx, n, now); err != nil {
			return raised, err
		}
	}
	return raised, nil
}

// backlogs finds the providers whose oldest event without an outcome has waited too long.
func (a *Alerts) backlogs(ctx context.Context, tx pgx.Tx, names []string, now time.Time) ([]noticeData, error) {
	rows, err := a.queries.MeasureWebhookBacklog(ctx, tx, MaxCounted, names)
	if err != nil {
		return nil, err
	}
	var list []noticeData
	for _, row := range rows {
		oldest := known(row.Oldest)
		if row.Waiting == 0 || oldest.IsZero() || now.Sub(oldest) <= a.o.MaxWait {
			continue
		}
		number := fmt.Sprint(row.Waiting)
		if row.Waiting == MaxCounted {
			number += " or more"
		}
		list = append(list, noticeData{Provider: row.Provider, Waiting: row.Waiting, OldestAt: &oldest,
			Message: fmt.Sprintf("%s webhook events of %s have no outcome yet; the oldest has waited for %v.", number, row.Provider, now.Sub(oldest).Round(time.Minute))})
	}
	return list, nil
}

// refused finds the providers of which only refused deliveries came lately, for their
// signature or the secret.
func (a *Alerts) refused(ctx context.Context, tx pgx.Tx, names []string, now time.Time) ([]noticeData, error) {
	rows, err := a.queries.ListWebhookTroubles(ctx, tx, names, MaxRefused)
	if err != nil {
		return nil, err
	}
	var list []noticeData
	for _, row := range rows {
		if row.Refused < int64(a.o.Refused) || now.Sub(row.RefusedAt) > troubleWindow || !Reason(row.Reason).ofSignature() {
			continue
		}
		number := fmt.Sprint(row.Refused)
		if row.Refused == MaxRefused {
			number += " or more"
		}
		list = append(list, noticeData{Provider: row.Provider, Refused: row.Refused, Reason: row.Reason,
			Message: fmt.Sprintf("The last %s deliveries of %s were all refused, the latest for %s.", number, row.Provider, row.Reason)})
	}
	return list, nil
}

// failureRates finds the providers of whose events of the last hour too many fail. One
// whose rate is only a little lower is still high.
func (a *Alerts) failureRates(ctx context.Context, tx pgx.Tx, names []string, now time.Time) ([]noticeData, error) {
	rows, err := a.queries.MeasureWebhookFailures(ctx, tx, names, now.Add(-troubleWindow), troubleEvents)
	if err != nil {
		return nil, err
	}
	var list []noticeData
	for _, row := range rows {
		percent := row.Failing * 100 / max(row.Handled, 1)
		if percent*calmer < int64(a.o.FailureRate) {
			continue
		}
		list = append(list, noticeData{Provider: row.Provider, Handled: row.Handled, Failed: row.Failing,
			stillHigh: row.Handled < troubleLeast || percent < int64(a.o.FailureRate),
			Message:   fmt.Sprintf("Of the %d newest webhook events of %s, %d fail.", row.Handled, row.Provider, row.Failing)})
	}
	return list, nil
}
