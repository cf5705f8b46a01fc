package pages_test

import (
	"context"
	"errors"
	"html"
	"log/slog"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/google/go-cmp/cmp"

	"github.com/waypost/waypost/internal/account"
	"github.com/waypost/waypost/internal/audit"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/mail"
	"github.com/waypost/waypost/internal/pages"
	"github.com/waypost/waypost/internal/queue"
	"github.com/waypost/waypost/internal/telemetry"
	"github.com/waypost/waypost/internal/webhook"
)

var noon = time.Date(2026, 11, 22, 12, 30, 0, 0, time.UTC)

// parts are services that answer what a test says.
type parts struct {
	runner    func(ctx context.Context) error
	queues    []queue.Info
	tasks     []queue.Task
	webhooks  webhook.Condition
	overdue   int64
	mails     func(ctx context.Context) (mail.Condition, error)
	audit     audit.Condition
	tokens    []account.ExpiringToken
	disks     []telemetry.Disk
	summary   telemetry.Summary
	counts    map[string][]uint64
	countsErr error
}

type (
	jobsPart     struct{ p *parts }
	webhookPart  struct{ p *parts }
	statsPart    struct{ p *parts }
	mailPart     struct{ p *parts }
	auditPart    struct{ p *parts }
	tokenPart    struct{ p *parts }
	measuredPart struct{ p *parts }
)

func (s jobsPart) Queues(context.Context) ([]queue.Info, error)            { return s.p.queues, nil }
func (s jobsPart) Tasks(context.Context) ([]queue.Task, error)             { return s.p.tasks, nil }
func (s webhookPart) Condition(context.Context) (webhook.Condition, error) { return s.p.webhooks, nil }
func (s statsPart) Overdue(context.Context) (int64, time.Time, error) {
	return s.p.overdue, noon.AddDate(0, 0, -5), nil
}
func (s auditPart) Condition(context.Context) (audit.Condition, error) { return s.p.audit, nil }
func (s mailPart) Condition(ctx context.Context, _ time.Time) (mail.Condition, error) {
	if s.p.mails == nil {
		return mail.Condition{}, nil
	}
	return s.p.mails(ctx)
}
func (s tokenPart) ExpiringTokens(context.Context, int) ([]account.ExpiringToken, error) {
	return s.p.tokens, nil
}
func (s measuredPart) Read(context.Context, telemetry.Question) (telemetry.Summary, error) {
	return s.p.summary, nil
}
func (s measuredPart) Counts(context.Context, telemetry.Question) (map[string][]uint64, error) {
	return s.p.counts, s.p.countsErr
}

// admins lets everybody in.
type admins struct{ pages.Visits }

func (admins) AuthenticateVisit(context.Context, string, bool) (identity.Principal, account.User, error) {
	return identity.Principal{Kind: identity.KindUser, ID: "1", Role: identity.Admin}, account.User{ID: 1, Email: ada}, nil
}

// overview is the first page with these parts.
func overview(t *testing.T, p *parts) string {
	t.Helper()
	now := func() time.Time { return noon }
	if p.runner == nil {
		p.runner = func(context.Context) error { return nil }
	}
	all, err := pages.New(pages.Desk(pages.DeskOptions{Visits: admins{}, Now: now, Sections: []pages.Section{pages.OverviewPage(pages.OverviewOptions{
		Checks: []pages.Check{{Name: "Database", Href: "/admin/database", Ask: func(context.Context) (pages.Report, error) {
			return pages.Report{State: pages.Badge{Text: "ok", Tone: "good"}, Sentence: "It answers."}, nil
		}}},
		Runner: p.runner, Jobs: jobsPart{p}, Webhooks: webhookPart{p}, Statistics: statsPart{p}, Mails: mailPart{p}, Audit: auditPart{p}, Tokens: tokenPart{p},
		Disks: func() ([]telemetry.Disk, error) { return p.disks, nil }, Measurements: measuredPart{p}, Logger: slog.New(slog.DiscardHandler), Now: now,
	})}}))
	if err != nil {
		t.Fatal(err)
	}
	r := chi.NewRouter()
	for _, e := range all.Routes() {
		r.Method(e.Method, e.Pattern, e.Handler)
	}
	w := httptest.NewRecorder()
	r.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/admin", nil))
	if w.Code != 200 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	return w.Body.String()
}

var aNeed = regexp.MustCompile(`<li class="(bad|wait)"><a href="([^"]+)">([^<]+)</a>`)

// needs are those of a page: "bad text -> href".
func needs(page string) []string {
	var list []string
	for _, m := range aNeed.FindAllStringSubmatch(page, -1) {
		list = append(list, m[1]+" "+html.UnescapeString(m[3]+" -> "+m[2]))
	}
	return list
}

func TestNothingNeedsYouWhenAllIsWell(t *testing.T) {
	t.Parallel()
	minute, hour := time.Minute, 20*time.Second
	page := overview(t, &parts{
		// What is on its way needs nobody.
		queues:   []queue.Info{{Name: "default", Counts: map[queue.State]int64{queue.Available: 3, queue.Retryable: 2}, OldestWaiting: &minute}, {Name: "other", OldestWaiting: &hour}},
		tasks:    []queue.Task{{Name: "a", LastOutcome: queue.OK}, {Name: "b"}},
		webhooks: webhook.Condition{Waiting: 5, WaitingSince: noon.Add(-50 * time.Minute), Providers: []webhook.ProviderCondition{{Name: "payment", SecretSet: true, Refused: 4, RefusedAt: noon}, {Name: "unused"}, {Name: "old", SecretSet: true, Refused: 900, RefusedAt: noon.AddDate(0, 0, -2)}}},
		mails: func(context.Context) (mail.Condition, error) {
			return mail.Condition{Waiting: 1, WaitingSince: noon.Add(-time.Minute)}, nil
		},
		audit:   audit.Condition{Verifications: []audit.Verification{{Kind: "recent", At: noon.Add(-time.Minute), ToSeq: 9}, {Kind: "whole", At: noon.Add(-30 * time.Hour), ToSeq: 5}}, Waiting: 2, WaitingSince: noon},
		disks:   []telemetry.Disk{{Dir: "/data", Free: 11, Total: 100}},
		summary: telemetry.Summary{All: telemetry.Figures{Requests: 9, Failed: 9}, Points: []telemetry.Figures{{Requests: 9, Failed: 9}}},
	})
	if got := needs(page); got != nil || !strings.Contains(page, "Nothing needs you") || strings.Contains(page, "badge bad") || strings.Contains(page, "badge wait") {
		t.Errorf("%v in %s", got, page)
	}
}

func TestWhatNeedsAttentionLeadsToWhereItIsDealtWith(t *testing.T) {
	t.Parallel()
	wait, paused, seq := 6*time.Minute, noon.Add(-time.Hour), int64(17)
	page := overview(t, &parts{
		queues: []queue.Info{
			{Name: "default", Counts: map[queue.State]int64{queue.Discarded: queue.MaxCounted}, OldestWaiting: &wait},
			{Name: "rollups", PausedAt: &paused, OldestWaiting: &wait},
		},
		tasks: []queue.Task{{Name: "mails.sweep", LastOutcome: queue.Failed, LastError: "<script>alert(1)</script>"}},
		webhooks: webhook.Condition{Waiting: 1, WaitingSince: noon.Add(-2 * time.Hour), Failed: 1234, Providers: []webhook.ProviderCondition{
			{Name: "payment", SecretSet: true, Refused: 5, RefusedAt: noon.Add(-time.Minute), Reason: "invalid_signature"},
			{Name: "codehost", SecretEnv: "CODEHOST_WEBHOOK_SECRET", Refused: 1, FailureStreak: 12},
		}},
		overdue: 1000,
		mails: func(context.Context) (mail.Condition, error) {
			return mail.Condition{Waiting: 3, Stuck: 2, WaitingSince: noon.Add(-time.Hour), Failed: 1}, nil
		},
		audit: audit.Condition{Waiting: 8, WaitingSince: noon.Add(-6 * time.Minute), Verifications: []audit.Verification{
			{Kind: audit.KindRecent, At: noon, FirstBad: &audit.Bad{Seq: &seq, Reason: "hash"}}, {Kind: audit.KindWhole, At: noon.Add(-50 * time.Hour)},
		}},
		tokens:  []account.ExpiringToken{{ID: 4, Name: "nightly", ServiceAccount: 2, AccountName: "bot", ExpiresAt: noon.Add(50 * time.Hour)}},
		disks:   []telemetry.Disk{{Dir: "/data", Free: 9, Total: 100}, {Dir: "/tmp", Free: 2, Total: 100}},
		summary: telemetry.Summary{All: telemetry.Figures{Requests: 2000}, Points: []telemetry.Figures{{Requests: 500, Failed: 6}, {Requests: 500, Failed: 5}}},
	})
	want := []string{
		"bad 11 requests failed in this hour and the last -> /admin/observability?range=6h",
		"bad The last 5 deliveries of payment were all refused -> /admin/webhooks/rejected?provider=payment",
		"bad Deliveries of codehost are refused: it has no secret -> /admin/webhooks/providers",
		"bad The newest 12 deliveries of codehost failed -> /admin/webhooks?provider=codehost",
		"bad 2 mails could not be sent yet -> /admin/mails?status=queued",
		"bad The audit log is broken at entry 17 -> /admin/audit/chain",
		"bad 8 audit entries wait for a place in the chain -> /admin/audit/chain",
		"bad The disk of /tmp is nearly full -> /admin/observability",
		"wait Jobs of the queue default wait for 6m0s -> /admin/jobs?queue=default",
		"wait The queue rollups is paused -> /admin/queues",
		"wait 10,000 or more jobs were discarded -> /admin/jobs?state=discarded",
		"wait The task mails.sweep failed -> /admin/cron",
		"wait 1,234 deliveries failed and wait for a replay -> /admin/webhooks?status=failed",
		"wait 1 delivery has no outcome yet -> /admin/webhooks?status=pending",
		"wait 1,000 or more days of sites wait to be counted -> /admin/jobs?queue=rollups",
		"wait 1 mail of the last 24 h failed -> /admin/mails?status=failed",
		"wait The audit log as a whole was not verified for long -> /admin/audit/chain",
		"wait 1 API token of a service account expires soon -> /admin/service-accounts/2",
		"wait The disk of /data is nearly full -> /admin/observability",
	}
	if diff := cmp.Diff(want, needs(page)); diff != "" {
		t.Error(diff)
	}
	if strings.Contains(page, "<script>alert") || !strings.Contains(page, "First nightly of bot, in 2 days.") {
		t.Error(page)
	}
}

// One part hangs, whatever its context says, another fails, a third panics; the rest of
// the page is there.
func TestAPartThatHangsOrFailsTakesNothingElseAway(t *testing.T) {
	t.Parallel()
	hang := make(chan struct{})
	t.Cleanup(func() { close(hang) })
	page := overview(t, &parts{
		mails:     func(context.Context) (mail.Condition, error) { <-hang; return mail.Condition{}, nil },
		runner:    func(context.Context) error { panic("a bug") },
		countsErr: errors.New("secret of the database"),
		disks:     []telemetry.Disk{{Dir: "/data", Free: 50, Total: 100}},
		summary:   telemetry.Summary{All: telemetry.Figures{Requests: 42}},
	})
	want := []string{"wait Jobs could not be read -> /admin/jobs", "wait Mail could not be read -> /admin/mails"}
	if diff := cmp.Diff(want, needs(page)); diff != "" {
		t.Error(diff)
	}
	for _, text := range []string{"could not be read in time", "could not be read. The log says why", "50 B (50 %) free at /data", "42 requests in 24 h", "It answers."} {
		if !strings.Contains(page, text) {
			t.Errorf("no %q in %s", text, page)
		}
	}
	if n := strings.Count(page, `<p class="aside">It could not be read.</p>`); n != 4 || strings.Contains(page, "secret") {
		t.Errorf("%d charts lack their counts: %s", n, page)
	}
}

func TestTheLastDayIsDrawnByTheHour(t *testing.T) {
	t.Parallel()
	hours := func(last uint64) []uint64 { return append(make([]uint64, 23), last) }
	page := overview(t, &parts{
		summary: telemetry.Summary{
			All: telemetry.Figures{Requests: 10}, Points: append(make([]telemetry.Figures, 23), telemetry.Figures{Requests: 10, Refused: 3, Failed: 1}),
			Routes: []telemetry.RouteFigures{
				{Method: "POST", Route: "/webhooks/{provider}", Course: hours(1007), Refusing: hours(4), Failing: hours(2)},
				{Method: "GET", Route: "/webhooks/{provider}", Course: hours(5000)},
				{Method: "POST", Route: "/admin/sign-in", Course: hours(20), Refusing: hours(9)},
				{Method: "POST", Route: "/api/auth/login", Course: hours(30), Refusing: hours(1), Failing: hours(5)},
			},
		},
		counts: map[string][]uint64{pages.CountDeliveriesFailed: hours(77), pages.CountHits: hours(1234567), pages.CountHitsLost: hours(6), pages.CountJobs: hours(61), pages.CountMailsFailed: hours(8)},
	})
	var got []string
	for _, m := range regexp.MustCompile(`<li class="\w+"><span class="figure">([^<]+)</span> ([^<]+)</li>`).FindAllStringSubmatch(page, -1) {
		got = append(got, m[1]+" "+m[2])
	}
	want := []string{
		"6 answered", "3 refused (4xx)", "1 failed (5xx)",
		"1,001 taken", "6 refused", "77 failed handlings",
		"1,234,567 counted", "0 dropped", "6 not stored",
		"61 completed", "0 failed attempts",
		"0 sent", "8 failed",
		"35 accepted", "10 refused",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for _, text := range []string{"from 21 November, 13:00 UTC to now", "<title>12:00, counted: 1,234,567</title>"} {
		if !strings.Contains(page, text) {
			t.Errorf("no %q in %s", text, page)
		}
	}
}
