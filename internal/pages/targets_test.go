package pages_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/waypost/waypost/internal/pages"
	"github.com/waypost/waypost/internal/webhook"
)

// sending is a receiver with targets, which keeps what was asked of them.
type sending struct {
	pages.Webhooks
	filter webhook.Filter
	acts   []string
}

func (s *sending) Targets(context.Context) ([]webhook.TargetState, error) {
	oldest := time.Now().Add(-time.Hour)
	return []webhook.TargetState{
		{Provider: "shop", Name: "crm", Condition: webhook.TargetWorks, Here: &webhook.TargetConfiguration{SecretEnv: "CRM_SECRET", Attempts: 10, Timeout: 15 * time.Second, Concurrency: 8}},
		{Provider: "shop", Name: "a b/<c>", Condition: webhook.TargetPaused, Waiting: webhook.MaxCounted, Oldest: &oldest},
		{Provider: "shop", Name: "down", Condition: webhook.TargetFailing, Failures: 12},
		{Provider: "shop", Name: "gone", Condition: webhook.TargetMissing, Waiting: 3},
	}, nil
}

func (s *sending) PauseTarget(_ context.Context, provider, name string) (webhook.TargetState, error) {
	s.acts = append(s.acts, "pause "+provider+" "+name)
	return webhook.TargetState{}, nil
}

func (s *sending) ResumeTarget(_ context.Context, provider, name string) (webhook.TargetState, error) {
	s.acts = append(s.acts, "resume "+provider+" "+name)
	return webhook.TargetState{}, nil
}

func (s *sending) List(_ context.Context, f webhook.Filter, _ *webhook.Position, _ int) ([]webhook.Record, error) {
	s.filter = f
	return nil, nil
}

func (s *sending) Detail(_ context.Context, id uuid.UUID) (webhook.Detail, error) {
	next := time.Now().Add(time.Hour)
	return webhook.Detail{
		Record: webhook.Record{ID: id, Provider: "shop", Status: webhook.Pending, Body: []byte(`{}`), CreatedAt: time.Now(), Targets: []webhook.TargetOutcome{
			{Name: "crm", Status: webhook.Processed, Attempts: 1}, {Name: "down", Status: webhook.Pending, Attempts: 2, NextAttemptAt: &next, Error: "it answered <503>", HeadersGone: true},
		}},
		Attempts: []webhook.Attempt{{Number: 1, At: time.Now(), Outcome: webhook.AttemptProcessed, Target: "crm"}},
	}, nil
}

func TestTargetsAreShownPausedAndResumed(t *testing.T) {
	t.Parallel()
	s := &sending{}
	o := newArchive(t, pages.WebhookPages(s))
	a := o.ask(t, "GET", "/webhooks/targets", nil)
	a.wants(t, "targets", 200, `/admin/webhooks/targets/shop/a%20b%2F%3Cc%3E`)
	a.says(t, "targets", "crm", "paused", "10,000 or more", "failing", "missing")
	a = o.ask(t, "GET", "/webhooks/targets/shop/crm", nil)
	a.wants(t, "a target", 200, `/admin/webhooks/targets/shop/crm/pause`)
	a.says(t, "a target", "Set CRM_SECRET", "15s", "-Resume")
	a = o.ask(t, "GET", "/webhooks/targets/shop/a%20b%2F%3Cc%3E", nil)
	a.wants(t, "a paused target", 200, `/admin/webhooks/targets/shop/a%20b%2F%3Cc%3E/resume`)
	o.ask(t, "GET", "/webhooks/targets/shop/none", nil).wants(t, "no target", 404, "")
	o.ask(t, "POST", "/webhooks/targets/shop/crm/pause", nil).wants(t, "pause", 303, "")
	o.ask(t, "POST", "/webhooks/targets/shop/a%20b%2F%3Cc%3E/resume", nil).wants(t, "resume", 303, "")
	if len(s.acts) != 2 || s.acts[0] != "pause shop crm" || s.acts[1] != "resume shop a b/<c>" {
		t.Errorf("%q", s.acts)
	}
}

func TestAnEventShowsItsTargetsAndCanBeTriedNow(t *testing.T) {
	t.Parallel()
	o := newArchive(t, pages.WebhookPages(&sending{}))
	id := uuid.New().String()
	a := o.ask(t, "GET", "/webhooks/"+id, nil)
	for _, text := range []string{"/admin/webhooks/targets/shop/down", "&lt;503&gt;", "/admin/webhooks/" + id + "/replay"} {
		a.wants(t, "an event", 200, text)
	}
	a.says(t, "an event", "Try now", "erased")
}

func TestTheListTakesEveryFilter(t *testing.T) {
	t.Parallel()
	s := &sending{}
	o := newArchive(t, pages.WebhookPages(s))
	o.ask(t, "GET", "/webhooks?target=crm&error=no+route&repeated=true&handled=false&status=processed", nil).wants(t, "filters", 200, `value="no route"`)
	if want := (webhook.Filter{Target: "crm", Error: "no route", Repeated: true, Unhandled: true, Status: webhook.Processed}); s.filter != want {
		t.Errorf("%+v", s.filter)
	}
}
