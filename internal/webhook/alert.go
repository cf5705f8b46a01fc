package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/queue"
	"github.com/waypost/waypost/internal/webhook/signature"
)

// AlertMailer mails an alert to the administrators within tx, once for each cause. It
// returns to how many.
type AlertMailer interface {
	Alert(ctx context.Context, tx pgx.Tx, cause, title, detail string) (int, error)
}

// AlertOptions configure NewAlerts. All but the last four are mandatory.
type AlertOptions struct {
	DB       *db.DB
	Registry *Registry
	Logger   *slog.Logger
	Jobs     JobQueue
	// Streak is how many of a provider's newest handled events in a row must be
	// failing.
	Streak int
	// MaxWait is how long an event may wait for its outcome, Refused how many deliveries in
	// a row may be refused for their signature, FailureRate how many percent of a
	// provider's events of the last hour may fail; an alert is raised beyond. Each is off
	// when it is 0.
	MaxWait     time.Duration
	Refused     int
	FailureRate int
	// URL is where an alert is posted, as a Standard Webhooks delivery signed with
	// Secret, a key in base64. Without a URL an alert is a line in the log.
	URL, Secret string
	// Mail mails alerts; nil for nobody.
	Mail AlertMailer
	// Client posts alerts; default one with a timeout of 10 s that follows no
	// redirects.
	Client *http.Client
	// Now is the clock; default time.Now.
	Now func() time.Time
}

func (o AlertOptions) validate() error {
	switch {
	case o.DB == nil, o.Registry == nil, o.Logger == nil, o.Jobs == nil:
		return errors.New("webhook: alerts need a database, a registry, a logger and a queue")
	case o.Streak < 1:
		return errors.New("webhook: an alert needs a streak of 1 or more")
	case o.URL == "":
		return nil
	}
	if err := (signature.Standard{}).CheckSecret([]byte(o.Secret)); err != nil {
		return fmt.Errorf("webhook: the alerts' secret: %w", err)
	}
	return nil
}

// Alerts tells an operator, once per streak, that a provider's events keep
// failing. Any number of instances may share the database.
type Alerts struct {
	o       AlertOptions
	queries dbsqlc.Queries
}

// NewAlerts checks the options.
func NewAlerts(o AlertOptions) (*Alerts, error) {
	if o.Client == nil {
		o.Client = &http.Client{
			Timeout:       10 * time.Second,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Alerts{o: o}, o.validate()
}

// AlertJob is the job that posts an alert.
type AlertJob struct {
	ID          uuid.UUID  `json:"id"` // the same at every attempt
	Provider    string     `json:"provider"`
	Streak      int64      `json:"streak"`
	LastSuccess *time.Time `json:"last_success"` // when the newest event that succeeded came; nil when none did since the first failure
	At          time.Time  `json:"at"`
}

// Kind names the job in the queue.
func (AlertJob) Kind() string { return "webhooks.alert" }

// KindAliases has the job's former name: rows of an older version may have it.
func (AlertJob) KindAliases() []string { return []string{"webhook_alert"} }

// Check starts an alert for each streak that has become long enough and for each other
// trouble, and returns how many. It is called periodically: what it looks at is the state
// of the stored events, so that neither restarts nor the number of instances change it.
func (a *Alerts) Check(ctx context.Context) (int, error) {
	streaks, err := a.checkStreaks(ctx)
	if err != nil {
		return streaks, err
	}
	troubles, err := a.checkTroubles(ctx)
	return streaks + troubles, err
}

func (a *Alerts) checkStreaks(ctx context.Context) (int, error) {
	n := 0
	err := a.o.DB.InTx(ctx, identity.Step(ctx, "webhook-alerts"), func(ctx context.Context, tx pgx.Tx) error {
		n = 0
		rows, err := a.queries.WebhookFailureStreaks(ctx, tx, int32(min(max(streakRows, a.o.Streak), math.MaxInt32)))
		if err != nil {
			return err
		}
		var providers []string
		var successes []time.Time
		var long []dbsqlc.WebhookFailureStreaksRow
		for _, row := range rows {
			if row.Streak < int64(a.o.Streak) {
				continue
			}
			// The alert of a provider that only other instances know goes on too.
			providers, successes = append(providers, row.Provider), append(successes, row.LastSuccess)
			if _, err := a.o.Registry.Provider(row.Provider); err == nil {
				long = append(long, row)
			}
		}
		ended, err := a.queries.EndWebhookAlerts(ctx, tx, providers, successes)
		if err != nil {
			return err
		}
		for _, provider := range ended {
			if !slices.Contains(providers, provider) { // else another streak has begun already
				if err := a.notify(ctx, tx, recovered(streakTrouble, provider), a.o.Now().UTC()); err != nil {
					return err
				}
			}
		}
		for _, row := range long {
			claimed, err := a.claim(ctx, tx, row)
			if err != nil {
				return err
			}
			if claimed {
				n++
			}
		}
		return nil
	})
	return n, err
}

// claim makes the alert this instance's and, with the same commit, a job.
func (a *Alerts) claim(ctx context.Context, tx pgx.Tx, row dbsqlc.WebhookFailureStreaksRow) (bool, error) {
	now := a.o.Now().UTC()
	claimed, err := a.queries.ClaimWebhookAlert(ctx, tx, row.Provider, row.Streak, now)
	if err != nil || claimed == 0 {
		return false, err
	}
	a.o.Logger.WarnContext(ctx, "webhook events keep failing", "provider", row.Provider, "streak", row.Streak)
	id, err := uuid.NewV7()
	if err != nil {
		return false, fmt.Errorf("webhook: new id: %w", err)
	}
	if a.o.Mail != nil {
		if _, err := a.o.Mail.Alert(ctx, tx, "webhooks "+id.String(), "Webhook events keep failing", failing(row.Provider, row.Streak)); err != nil {
			return false, err
		}
	}
	if a.o.URL == "" {
		return true, nil
	}
	job := AlertJob{ID: id, Provider: row.Provider, Streak: row.Streak, At: now}
	if at := row.LastSuccess.UTC(); at.Unix() > 0 {
		job.LastSuccess = &at
	}
	_, err = a.o.Jobs.InsertMany(ctx, tx, []queue.Entry{{Job: job}})
	return true, err
}

// alertBody is an alert on the wire, in the form that Standard Webhooks proposes.
type alertBody struct {
	Type      string    `json:"type"`
	Timestamp time.Time `json:"timestamp"`
	Data      any       `json:"data"`
}

type alertData struct {
	Provider      string     `json:"provider"`
	FailureStreak int64      `json:"failure_streak"`
	LastSuccessAt *time.Time `json:"last_success_at"`
	Message       string     `json:"message"`
}

// alertType is the alert's event type.
const alertType = "waypost.webhooks.failing"

// Send posts an alert; it is the work of an AlertJob. An error, which shows no
// secret, means that it should be tried again.
func (a *Alerts) Send(ctx context.Context, job AlertJob) error {
	return a.Post(ctx, job.ID, alertType, job.At, alertData{
		Provider: job.Provider, FailureStreak: job.Streak, LastSuccessAt: job.LastSuccess,
		Message: failing(job.Provider, job.Streak),
	})
}

// failing says for people what the alert is about.
func failing(provider string, streak int64) string {
	return fmt.Sprintf("The last %d webhook events of %s in a row have failed.", streak, provider)
}

// Post posts an alert of any type, with data that becomes JSON, at once; without a URL, which may have been taken out of the
// configuration, it does nothing. id is to be the same each time that the same alert is posted. An
// error shows no secret.
func (a *Alerts) Post(ctx context.Context, id uuid.UUID, kind string, at time.Time, data any) error {
	if a.o.URL == "" {
		return nil
	}
	body, err := json.Marshal(alertBody{Type: kind, Timestamp: at, Data: data})
	if err != nil {
		return fmt.Errorf("webhook: alert: %w", err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, a.o.URL, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("webhook: alert: %w", withoutURL(err))
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "Waypost")
	r.Header.Set(signature.StandardID, id.String())
	signature.Standard{}.Sign([]byte(a.o.Secret), body, r.Header, a.o.Now())
	res, err := a.o.Client.Do(r)
	if err != nil {
		return fmt.Errorf("webhook: alert: %w", withoutURL(err))
	}
	defer func() { _ = res.Body.Close() }()
	_, _ = io.CopyN(io.Discard, res.Body, maxAnswerText) // so that the connection can be used again
	if res.StatusCode/100 != 2 {
		return fmt.Errorf("webhook: alert: the receiver answered %d", res.StatusCode)
	}
	return nil
}
