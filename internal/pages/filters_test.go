package pages_test

import (
	"context"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/waypost/waypost/internal/audit"
	"github.com/waypost/waypost/internal/pages"
	"github.com/waypost/waypost/internal/webhook"
)

// ledger is an audit log that keeps what was asked of it.
type ledger struct {
	pages.Audit
	filter audit.Filter
}

func (l *ledger) List(_ context.Context, f audit.Filter, _ int64, _ int, _ *int64) ([]audit.Entry, error) {
	l.filter = f
	return nil, nil
}

func (*ledger) Checkpoints(context.Context, int64, int) ([]audit.Checkpoint, error) {
	return []audit.Checkpoint{{Size: 41, At: time.Now()}}, nil
}

func (*ledger) Verifications(context.Context) ([]audit.Verification, error) {
	return []audit.Verification{{Kind: "recent", At: time.Now(), ToSeq: 43}, {Kind: "whole", At: time.Now(), ToSeq: 42, FirstBad: &audit.Bad{Reason: "an entry <b>differs</b>"}}}, nil
}

func TestTheAuditPagesNarrowByTimeAndTellTheChainsState(t *testing.T) {
	t.Parallel()
	l := &ledger{}
	o := newArchive(t, pages.AuditPages(l))
	o.ask(t, "GET", "/audit?table=users&from=2026-01-02T15:04&to=2026-01-03T00:00", nil).wants(t, "entries", 200, `value="2026-01-02T15:04"`)
	want := audit.Filter{Table: "users", From: time.Date(2026, 1, 2, 15, 4, 0, 0, time.UTC), To: time.Date(2026, 1, 3, 0, 0, 0, 0, time.UTC)}
	if diff := cmp.Diff(want, l.filter); diff != "" {
		t.Error(diff)
	}
	a := o.ask(t, "GET", "/audit?table=users&from=2026-01-32T15:04", nil)
	a.wants(t, "no such day", 422, `value="users"`)
	a.says(t, "no such day", `id="p-from"`, "-No entries")
	a = o.ask(t, "GET", "/audit/chain", nil)
	a.wants(t, "the chain", 200, "&lt;b&gt;differs")
	a.says(t, "the chain", "broken", "whole", "43", "42", "41")
}

// deliveries are a receiver that keeps what was asked of it.
type deliveries struct {
	pages.Webhooks
	filter webhook.Filter
	force  bool
}

func (d *deliveries) List(context.Context, webhook.Filter, *webhook.Position, int) ([]webhook.Record, error) {
	return []webhook.Record{{ID: uuid.New(), Provider: "payment", Status: webhook.Failed, CreatedAt: time.Now()}}, nil
}

func (d *deliveries) StartBulk(_ context.Context, f webhook.Filter, force bool) (webhook.Bulk, error) {
	d.filter, d.force = f, force
	return webhook.Bulk{ID: uuid.New()}, nil
}

func (d *deliveries) Bulks(context.Context, *uuid.UUID, int) ([]webhook.Bulk, error) {
	return []webhook.Bulk{
		{ID: uuid.MustParse("01968a3e-9e51-7b63-8a77-3b8c9d0e1f2a"), Status: webhook.BulkRunning, Matched: 5547, CreatedAt: time.Now(),
			Filter: webhook.Filter{Provider: "payment", Error: "<no> route", From: time.Date(2026, 1, 2, 15, 4, 0, 0, time.UTC)}, Force: true},
	}, nil
}

func (d *deliveries) Bulk(context.Context, uuid.UUID) (webhook.Bulk, error) {
	list, err := d.Bulks(context.Background(), nil, 1)
	return list[0], err
}

func TestTheListOfBulkReplaysLeadsToTheOneThatCanBeStopped(t *testing.T) {
	t.Parallel()
	o := newArchive(t, pages.WebhookPages(&deliveries{}))
	const at = "/admin/webhooks/replays/01968a3e-9e51-7b63-8a77-3b8c9d0e1f2a"
	o.ask(t, "GET", "/webhooks", nil).says(t, "deliveries", `href="/admin/webhooks/replays"`)
	a := o.ask(t, "GET", "/webhooks/replays", nil)
	a.wants(t, "replays", 200, "&lt;no&gt; route")
	a.says(t, "replays", at, "running", "5,547", "payment", "2026-01-02 15:04:00 UTC", "too")
	a = o.ask(t, "GET", strings.TrimPrefix(at, "/admin"), nil)
	a.wants(t, "a replay", 200, "&lt;no&gt; route")
	a.says(t, "a replay", at+"/cancel", `href="/admin/webhooks/replays"`)
}

func TestABulkReplayTakesTheListsFilterAndProcessedOnesOnlyWhenAsked(t *testing.T) {
	t.Parallel()
	d := &deliveries{}
	o := newArchive(t, pages.WebhookPages(d))
	o.ask(t, "GET", "/webhooks", nil).says(t, "unfiltered", "-Replay")
	query := "from=2026-01-02T15%3A04&provider=payment"
	o.ask(t, "GET", "/webhooks?"+query, nil).says(t, "filtered", "/admin/webhooks/replay?"+query, "/admin/webhooks/force?"+query)
	want := webhook.Filter{Provider: "payment", From: time.Date(2026, 1, 2, 15, 4, 0, 0, time.UTC)}
	for act, force := range map[string]bool{"replay": false, "force": true} {
		asked := o.ask(t, "GET", "/webhooks/"+act+"?"+query, nil)
		asked.wants(t, act, 200, `name="provider" value="payment"`)
		asked.says(t, act, `name="from" value="2026-01-02T15:04"`)
		a := o.ask(t, "POST", "/webhooks/"+act, url.Values{"provider": {"payment"}, "from": {"2026-01-02T15:04"}})
		a.wants(t, act, 303, "")
		if diff := cmp.Diff(want, d.filter); diff != "" || d.force != force {
			t.Errorf("%s: %v %s", act, d.force, diff)
		}
	}
}
