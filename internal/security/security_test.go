package security_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/internal/audit"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/security"
	"github.com/waypost/waypost/internal/throttle"
)

var noon = time.Date(2026, 11, 22, 12, 30, 0, 0, time.UTC)

// process is one of the service's, with a clock of its own.
type process struct {
	*security.Service
	mu  sync.Mutex
	now time.Time
}

func (p *process) pass(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now = p.now.Add(d)
}

func newProcess(t *testing.T, d *db.DB, change ...func(*security.Options)) *process {
	t.Helper()
	p := &process{now: noon}
	o := security.Options{DB: d, Logger: slog.New(slog.DiscardHandler), Now: func() time.Time {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.now
	}}
	for _, f := range change {
		f(&o)
	}
	var err error
	if p.Service, err = security.New(o); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *process) flush(t *testing.T) {
	t.Helper()
	if err := p.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// look reads what is not remembered from before.
func (p *process) look(t *testing.T) security.View {
	t.Helper()
	p.pass(2 * time.Minute)
	v, err := p.Look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func count(t *testing.T, d *db.DB, sql string, args ...any) int {
	t.Helper()
	var n int
	if err := d.Pool().QueryRow(t.Context(), sql, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestSignInsAreSummedOverInstancesHoursAndDays(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t)
	one, two := newProcess(t, d), newProcess(t, d)
	for range 3 {
		one.CountSignIn("wrong_password")
		two.CountSignIn("wrong_password")
	}
	one.flush(t)
	two.flush(t)
	one.flush(t) // what is stored twice counts once
	one.CountSignIn("wrong_password")
	one.flush(t)
	one.pass(3 * time.Hour)
	one.CountSignIn("signed_in")
	one.flush(t)
	one.pass(48 * time.Hour)
	one.CountSignIn("wrong_password")
	one.flush(t)
	s := one.look(t).State
	if got := [3]int64{s.Days.Sum("wrong_password"), s.Days.Sum("signed_in"), s.Hours.Sum("wrong_password")}; got != [3]int64{8, 1, 1} {
		t.Errorf("sums %v", got)
	}
	if s.Days.Counts["wrong_password"][29] != 1 || s.Days.Counts["wrong_password"][27] != 7 || s.Hours.Counts["wrong_password"][23] != 1 {
		t.Errorf("%v %v", s.Days.Counts, s.Hours.Counts)
	}
}

func TestAFloodOfSignInsCostsOneRowForEachOutcomeAndHour(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t)
	p := newProcess(t, d)
	for i := range 10_000 {
		p.CountSignIn([]string{"throttled", "unknown_account"}[i%2])
	}
	for i := range 100 { // names that nobody knows are bounded too
		p.CountSignIn(fmt.Sprint("made up ", i))
	}
	p.flush(t)
	if rows := count(t, d, `select count(*) from sign_in_counts`); rows != 32 {
		t.Errorf("%d rows", rows)
	}
	if s := p.look(t).State; s.Hours.Sum("throttled") != 5000 {
		t.Errorf("%v", s.Hours.Counts)
	}
}

func TestWhatCannotBeStoredWaitsAndIsStoredOnce(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t)
	p := newProcess(t, d)
	p.CountSignIn("signed_in")
	p.CountViolation(security.Violation{Directive: "img-src", Blocked: "inline"}, "/docs")
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Flush(gone); err == nil {
		t.Fatal("stored without a database")
	}
	p.CountViolation(security.Violation{Directive: "img-src", Blocked: "inline"}, "/docs")
	p.flush(t)
	v := p.look(t).State
	if v.Hours.Sum("signed_in") != 1 || len(v.Reports) != 1 || v.Reports[0].Count != 2 {
		t.Errorf("%v %+v", v.Hours.Counts, v.Reports)
	}
}

func TestOldCountsAndReportsAreDeleted(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t)
	p := newProcess(t, d)
	p.CountSignIn("signed_in")
	p.CountViolation(security.Violation{Directive: "img-src", Blocked: "inline"}, "/docs")
	p.flush(t)
	p.pass(security.Kept - time.Hour)
	if n, err := p.Sweep(t.Context()); n != 0 || err != nil {
		t.Errorf("Sweep = %d, %v", n, err)
	}
	p.pass(26 * time.Hour)
	if n, err := p.Sweep(t.Context()); n != 2 || err != nil {
		t.Errorf("Sweep of old ones = %d, %v", n, err)
	}
}

func TestNoStrangerCrowdsOutTheReportsOfAnotherPage(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t)
	p := newProcess(t, d)
	for round := range 12 {
		for i := range 300 {
			p.CountViolation(security.Violation{Directive: "script-src", Blocked: fmt.Sprintf("https://r%d-%d.example", round, i)}, "/docs")
		}
		p.flush(t)
	}
	p.CountViolation(security.Violation{Directive: "script-src", Blocked: "https://true.example"}, "/admin")
	p.flush(t)
	if rows := count(t, d, `select count(*) from csp_reports where page = '/docs'`); rows > 11 {
		t.Errorf("%d rows of one page", rows)
	}
	if sum := count(t, d, `select sum(count) from csp_reports where page = '/docs'`); sum != 3600 {
		t.Errorf("%d reports of 3600", sum)
	}
	if rows := count(t, d, `select count(*) from csp_reports where page = '/admin' and blocked = 'https://true.example'`); rows != 1 {
		t.Error("the report of the other page is lost")
	}
	p.CountViolation(security.Violation{Directive: "script-src", Blocked: "inline"}, "") // no page of ours
	p.flush(t)
	if rows := count(t, d, `select count(*) from csp_reports`); rows > 12 {
		t.Errorf("%d rows", rows)
	}
}

func TestReportsAreRefusedBeforeTheyAreRead(t *testing.T) {
	t.Parallel()
	p := newProcess(t, dbtest.New(t))
	admit := func(from string) error { return p.AdmitReport(netip.MustParseAddr(from)) }
	for i := range 60 {
		if err := admit(fmt.Sprintf("2001:db8:0:%x::1", i)); err != nil {
			t.Fatal(err)
		}
	}
	var problem *fault.Error
	if err := admit("2001:db8:0:ffff::1"); !errors.As(err, &problem) || problem.RetryAfter <= 0 || problem.RetryAfter > time.Minute {
		t.Errorf("the 61st of a /48: %v", err)
	}
	refused := 0
	for i := range 1200 {
		if admit(fmt.Sprintf("198.51.%d.%d", i/250, i%250)) != nil {
			refused++
		}
	}
	if refused != 60 {
		t.Errorf("%d refused of all together", refused)
	}
	p.pass(time.Minute)
	if err := admit("2001:db8:0:ffff::1"); err != nil {
		t.Errorf("in the next minute: %v", err)
	}
}

func TestForgettingTheReportsIsNoted(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t)
	p := newProcess(t, d)
	p.CountViolation(security.Violation{Directive: "img-src", Blocked: "inline"}, "/docs")
	p.flush(t)
	if v := p.look(t); len(v.State.Reports) != 1 {
		t.Fatalf("%+v", v.State.Reports)
	}
	ctx := identity.NewContext(t.Context(), identity.Account(1, identity.Admin, "").Doing("clear-csp-reports"))
	if err := p.ClearReports(ctx); err != nil {
		t.Fatal(err)
	}
	if v, err := p.Look(ctx); err != nil || len(v.State.Reports) != 0 {
		t.Errorf("%+v %v", v.State.Reports, err)
	}
	if n := count(t, d, `select count(*) from audit_pending where op = 'note' and table_name = 'csp_reports' and action = 'clear-csp-reports'`); n != 1 {
		t.Errorf("%d notes", n)
	}
}

func TestWhoIsAtALimitIsListedUntilItEnds(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t)
	streak := throttle.Limit{Name: "streak", Max: 2, Block: 10 * time.Minute, MaxBlock: 10 * time.Minute}
	window := throttle.Limit{Name: "window", Max: 3, Window: 20 * time.Minute}
	p := newProcess(t, d, func(o *security.Options) { o.Limits = []throttle.Limit{streak, window} })
	limits, err := throttle.New(throttle.Options{DB: d, Now: func() time.Time { return noon }})
	if err != nil {
		t.Fatal(err)
	}
	ctx := identity.NewContext(t.Context(), identity.System("test"))
	for range 2 {
		if err := limits.Count(ctx, throttle.Key{Limit: streak, Subject: "a"}, throttle.Key{Limit: window, Subject: "b"}); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	who := func() string {
		got = nil
		for _, l := range p.look(t).State.Limited {
			got = append(got, l.Limit+" "+l.Subject)
		}
		return strings.Join(got, ", ")
	}
	if who() != "streak a" {
		t.Errorf("after two: %v", got)
	}
	if err := limits.Count(ctx, throttle.Key{Limit: window, Subject: "b"}); err != nil {
		t.Fatal(err)
	}
	if who() != "window b, streak a" {
		t.Errorf("after three: %v", got)
	}
	p.pass(8 * time.Minute)
	if who() != "window b" {
		t.Errorf("after the block: %v", got)
	}
	p.pass(10 * time.Minute)
	if who() != "" {
		t.Errorf("after the window: %v", got)
	}
}

func TestCredentialsAreCountedByAge(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t)
	exec(t, d, `insert into users (first_name, last_name, email, email_key, password_hash, role, created_at, updated_at) select *, now(), now() from (values
		('Ada', 'Love', 'a@example.com', 'a@example.com', 'x', 'ADMIN'), ('Bob', 'Bee', 'b@example.com', 'b@example.com', 'x', 'USER'), ('Cia', 'See', 'c@example.com', 'c@example.com', 'x', 'ADMIN')) v`)
	exec(t, d, `insert into totp_factors (user_id, secret, secret_key_id, created_at, confirmed_at) select id, '\x00', 'k', now(), case when email = 'a@example.com' then now() end from users`)
	exec(t, d, `insert into api_tokens (user_id, name, prefix, token_sha256, scopes, created_at, expires_at, revoked_at)
		select u.id, 't', 'p', sha256(t.age::text::bytea), '{read}', $1::timestamptz - t.age, null, t.gone from (select id from users limit 1) u,
		(values (interval '1 hour', null::timestamptz), ('3 days', null), ('400 days', null), ('500 days', now())) t (age, gone)`, noon)
	v := newProcess(t, d).look(t)
	if diff := cmp.Diff([]int64{1, 1, 0, 0, 0, 1}, v.Census.Ages[security.APITokens]); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]security.RoleCount{{Role: "ADMIN", Accounts: 2, Protected: 1}, {Role: "USER", Accounts: 1}}, v.Census.Roles); diff != "" {
		t.Error(diff)
	}
	if len(v.Census.Unprotected) != 1 || v.Census.Unprotected[0].Email != "c@example.com" {
		t.Errorf("%+v", v.Census.Unprotected)
	}
}

func exec(t *testing.T, d *db.DB, sql string, args ...any) {
	t.Helper()
	if _, err := d.Single(identity.System("test")).Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func TestRefusedSignInsAreReadFromTheAuditLog(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t)
	exec(t, d, `insert into users (first_name, last_name, email, email_key, password_hash, role, created_at, updated_at) values ('Ada', 'Love', 'a@example.com', 'a@example.com', 'x', 'USER', now(), now())`)
	p := newProcess(t, d, func(o *security.Options) { o.Now = time.Now })
	guest := identity.Principal{Kind: identity.KindAnonymous, Address: netip.MustParseAddr("192.0.2.7")}.Doing("login")
	for _, what := range []map[string]string{
		{"event": "sign_in_refused", "reason": "password"}, {"event": "sign_in_refused", "reason": "password"}, {"event": "something_else"},
	} {
		err := d.InTx(t.Context(), guest, func(ctx context.Context, tx pgx.Tx) error {
			if err := audit.Note(ctx, tx, "users", "9000", what); err != nil {
				return err
			}
			return audit.Note(ctx, tx, "users", fmt.Sprint(count(t, d, `select id from users`)), what)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	exec(t, d, `select audit_seal(1000)`)
	v, err := p.Look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range v.State.Refused {
		got = append(got, fmt.Sprintf("%q %s %s %d", f.Email, f.Address, f.Reason, f.Count))
	}
	slices.Sort(got)
	if diff := cmp.Diff([]string{`"" 192.0.2.7 password 2`, `"a@example.com" 192.0.2.7 password 2`}, got); diff != "" {
		t.Error(diff)
	}
}
