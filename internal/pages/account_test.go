package pages_test

import (
	"bytes"
	"context"
	"errors"
	"html"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/internal/account"
	"github.com/waypost/waypost/internal/httpedge"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/mail"
	"github.com/waypost/waypost/internal/mail/mailtest"
	"github.com/waypost/waypost/internal/pages"
	"github.com/waypost/waypost/internal/queue"
	"github.com/waypost/waypost/internal/token"
)

const (
	baseURL  = "http://waypost.example"
	password = "correct horse battery staple"
	ada      = "ada@example.com"
)

// site is the pages over real accounts, below the stack that every request passes.
type site struct {
	handler  http.Handler
	accounts *account.Service
	mail     *mailtest.Memory
	jobs     *jobs
	log      *bytes.Buffer
}

// jobs keeps what was inserted, for tests to work.
type jobs struct{ list []queue.Job }

func (j *jobs) Insert(_ context.Context, _ pgx.Tx, job queue.Job) error {
	j.list = append(j.list, job)
	return nil
}

func newSite(t *testing.T) *site {
	t.Helper()
	d := dbtest.New(t)
	tokens, err := token.New(t.Context(), token.Options{DB: d, Issuer: baseURL, SecretKey: bytes.Repeat([]byte{'k'}, token.MinSecretKey)})
	if err != nil {
		t.Fatal(err)
	}
	s := &site{mail: &mailtest.Memory{}, jobs: &jobs{}, log: &bytes.Buffer{}}
	s.accounts, err = account.New(account.Options{
		DB: d, Tokens: tokens, Mail: s.mail, Jobs: s.jobs, URL: baseURL, PasswordCost: account.PasswordCost{MemoryKiB: 64, Passes: 1, Lanes: 1},
	})
	if err != nil {
		t.Fatal(err)
	}
	p, err := pages.New(pages.Account(s.accounts))
	if err != nil {
		t.Fatal(err)
	}
	r := chi.NewRouter()
	if err := httpedge.Use(r, httpedge.Options{Logger: slog.New(slog.NewJSONHandler(s.log, &slog.HandlerOptions{Level: slog.LevelDebug}))}); err != nil {
		t.Fatal(err)
	}
	for _, e := range p.Routes() {
		r.Method(e.Method, e.Pattern, e.Handler)
	}
	s.handler = r
	_, err = s.accounts.Register(t.Context(), account.NewUser{FirstName: "Ada", LastName: "Lovelace", Email: ada, Password: password})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// mailed is the path and query of the last link of that kind to ada.
func (s *site) mailed(t *testing.T, kind mail.Kind) string {
	t.Helper()
	return s.mailedTo(t, kind, ada)
}

func (s *site) mailedTo(t *testing.T, kind mail.Kind, to string) string {
	t.Helper()
	for len(s.jobs.list) > 0 {
		var err error
		switch job := s.jobs.list[0].(type) {
		case account.LinkJob:
			err = s.accounts.MailLink(t.Context(), job)
		case account.EmailChangeJob:
			err = s.accounts.MailEmailChange(t.Context(), job)
		}
		if err != nil {
			t.Fatal(err)
		}
		s.jobs.list = s.jobs.list[1:]
	}
	link := ""
	for _, m := range s.mail.Sent(to) {
		if m.Kind == kind {
			link = m.Link
		}
	}
	path, found := strings.CutPrefix(link, baseURL)
	if !found {
		t.Fatalf("the last link of kind %s is %q", kind, link)
	}
	return path
}

func (s *site) forgot(t *testing.T) string {
	t.Helper()
	if err := s.accounts.RequestPasswordReset(t.Context(), ada); err != nil {
		t.Fatal(err)
	}
	return s.mailed(t, mail.ResetPassword)
}

type page struct {
	status int
	header http.Header
	body   string
	from   *url.URL
}

func (s *site) send(t *testing.T, r *http.Request) page {
	t.Helper()
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, r)
	return page{w.Code, w.Header(), w.Body.String(), r.URL}
}

func (s *site) get(t *testing.T, path string) page {
	t.Helper()
	return s.send(t, httptest.NewRequestWithContext(t.Context(), http.MethodGet, baseURL+path, nil))
}

var (
	formAction   = regexp.MustCompile(`<form method="post" action="([^"]*)">`)
	hiddenFields = regexp.MustCompile(`<input type="hidden" name="([^"]*)" value="([^"]*)">`)
)

// submit sends the page's first form as a browser would, with what was typed.
func (s *site) submit(t *testing.T, p page, typed map[string]string) page {
	t.Helper()
	return s.submitForm(t, p, p.body, typed)
}

// submitForm sends the first form of a part of the page.
func (s *site) submitForm(t *testing.T, p page, part string, typed map[string]string) page {
	t.Helper()
	action := formAction.FindStringSubmatch(part)
	if action == nil {
		t.Fatalf("%d, no form in %s", p.status, p.body)
	}
	form := url.Values{}
	for _, f := range hiddenFields.FindAllStringSubmatch(part, -1) {
		form.Set(f[1], html.UnescapeString(f[2]))
	}
	for name, value := range typed {
		form.Set(name, value)
	}
	to := p.from.ResolveReference(&url.URL{Path: action[1]})
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, to.String(), strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	return s.send(t, r)
}

func (p page) wants(t *testing.T, what string, status int, text string) {
	t.Helper()
	if p.status != status || !strings.Contains(p.body, text) {
		t.Errorf("%s: %d, want %d with %q:\n%s", what, p.status, status, text, p.body)
	}
}

// Mail scanners and previews open every link.
func TestAVerificationLinkIsSpentByItsButtonAlone(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	link := s.mailed(t, mail.VerifyEmail)
	for range 3 {
		s.get(t, link).wants(t, "open", 200, "Confirm my address")
	}
	if u, err := s.accounts.FindByEmail(t.Context(), ada); err != nil || u.EmailVerified {
		t.Fatalf("opening it verified %+v, %v", u, err)
	}
	open := s.get(t, link)
	s.submit(t, open, nil).wants(t, "no password", 403, "Type the password")
	wrong := s.submit(t, open, map[string]string{"password": "not the password"})
	wrong.wants(t, "a wrong password", 401, "password is wrong")
	s.submit(t, wrong, map[string]string{"password": password}).wants(t, "the button", 200, "Your address is confirmed")
	if u, err := s.accounts.FindByEmail(t.Context(), ada); err != nil || !u.EmailVerified {
		t.Errorf("the button left %+v, %v", u, err)
	}
	s.submit(t, open, nil).wants(t, "the button again", 400, "no longer works")
	s.get(t, link).wants(t, "open again", 400, "no longer works")
}

func TestTheOwnerOfAnAddressMakesTheAccountTheirs(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	stranger, err := s.accounts.SignIn(t.Context(), ada, password)
	if err != nil {
		t.Fatal(err)
	}
	open := s.get(t, s.mailed(t, mail.VerifyEmail))
	_, second, _ := strings.Cut(open.body, "<h2>")
	type typed = map[string]string
	s.submitForm(t, open, second, typed{"new_password": "a newer battery staple", "again": "another"}).wants(t, "two passwords", 422, "The two passwords differ")
	s.submitForm(t, open, second, typed{"new_password": "password1", "again": "password1"}).wants(t, "a common one", 422, "The new password: Is one that attackers try first")
	s.submitForm(t, open, second, typed{"new_password": "a newer battery staple", "again": "a newer battery staple"}).wants(t, "the form", 200, "Your address is confirmed")
	if _, err := s.accounts.Authenticate(t.Context(), stranger.AccessToken); !errors.Is(err, account.ErrSessionRevoked) {
		t.Errorf("the stranger's session: %v", err)
	}
	if _, err := s.accounts.SignIn(t.Context(), ada, "a newer battery staple"); err != nil {
		t.Errorf("the new password: %v", err)
	}
}

func TestAChangeOfTheAddressIsConfirmedAndTakenBackByButtons(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	if err := s.accounts.Vouch(t.Context(), ada); err != nil {
		t.Fatal(err)
	}
	in, err := s.accounts.SignIn(t.Context(), ada, password)
	if err != nil {
		t.Fatal(err)
	}
	p, err := s.accounts.Authenticate(t.Context(), in.AccessToken)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.accounts.RequestEmailChange(identity.NewContext(t.Context(), p), "ada@example.org"); err != nil {
		t.Fatal(err)
	}
	change := func(link, button, done string) {
		t.Helper()
		for range 2 {
			s.get(t, link).wants(t, "open", 200, button)
		}
		open := s.get(t, link)
		s.submit(t, open, nil).wants(t, "the button", 200, done)
		again := s.submit(t, open, nil)
		again.wants(t, "the button again", 400, "no longer works")
		if strings.Contains(again.body, "<form") {
			t.Errorf("a form that asks for another link: %s", again.body)
		}
	}
	change(s.mailedTo(t, mail.ConfirmEmail, "ada@example.org"), "Use this address", "Your address is changed")
	if u, err := s.accounts.FindByID(t.Context(), p.UserID); err != nil || u.Email != "ada@example.org" {
		t.Errorf("confirmed: %+v, %v", u, err)
	}
	change(s.mailed(t, mail.UndoEmail), "Take the change back", "The change is taken back")
	if u, err := s.accounts.FindByID(t.Context(), p.UserID); err != nil || u.Email != ada {
		t.Errorf("taken back: %+v, %v", u, err)
	}
	s.get(t, s.mailed(t, mail.ResetPassword)).wants(t, "the link to choose a password", 200, "Set the password")
}

func TestAResetLinkSetsThePasswordThatWasTypedTwice(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	link := s.forgot(t)
	open := s.get(t, link)
	open.wants(t, "open", 200, `autocomplete="new-password"`)
	type typed = map[string]string
	differ := s.submit(t, open, typed{"password": "a newer battery staple", "again": "a never battery staple"})
	differ.wants(t, "two passwords", 422, "The two passwords differ")
	common := s.submit(t, differ, typed{"password": "password1", "again": "password1"})
	common.wants(t, "a common one", 422, "attackers try first")
	short := s.submit(t, common, typed{"password": "short", "again": "short"})
	short.wants(t, "a short one", 422, "Needs 8 to 128 characters")
	s.submit(t, short, typed{"password": "a newer battery staple", "again": "a newer battery staple"}).wants(t, "at last", 200, "Your password is set")
	if _, err := s.accounts.SignIn(t.Context(), ada, "a newer battery staple"); err != nil {
		t.Errorf("the new password: %v", err)
	}
	if _, err := s.accounts.SignIn(t.Context(), ada, password); !errors.Is(err, account.ErrInvalidCredentials) {
		t.Errorf("the old password: %v", err)
	}
	s.get(t, link).wants(t, "open again", 400, "no longer works")
}

func TestASpentLinkOffersAnotherAndTellsNobodyWhoHasAnAccount(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		path string
		kind mail.Kind
	}{{account.VerifyEmailPath, mail.VerifyEmail}, {account.ResetPasswordPath, mail.ResetPassword}} {
		s := newSite(t)
		spent := s.get(t, tc.path+"?token=wpml_made-up")
		spent.wants(t, tc.path, 400, "mailed to you")
		known, unknown := s.submit(t, spent, map[string]string{"email": " ADA@example.com"}), s.submit(t, spent, map[string]string{"email": "eve@example.com"})
		known.wants(t, "another", 200, "Check your mail")
		if known.body != unknown.body || known.status != unknown.status {
			t.Errorf("%s: the answers differ:\n%s\n%s", tc.path, known.body, unknown.body)
		}
		next := s.mailed(t, tc.kind)
		s.get(t, next).wants(t, "the other link", 200, "<form")
		if n := len(s.mail.Sent("eve@example.com")); n != 0 {
			t.Errorf("%d mails to nobody", n)
		}
		wrong := s.submit(t, spent, map[string]string{"email": "not an address"})
		wrong.wants(t, "no address", 422, "The address: Must be one e-mail address")
		s.submit(t, wrong, map[string]string{"email": ada}).wants(t, "mended", 200, "Check your mail")
	}
}

func TestTheSecretStaysOnItsPage(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	link := s.forgot(t)
	secret := link[strings.Index(link, "=")+1:]
	open := s.get(t, link)
	set := s.submit(t, open, map[string]string{"password": "a newer battery staple", "again": "a newer battery staple"})
	for name, want := range map[string]string{"Referrer-Policy": "no-referrer", "Cache-Control": "no-store", "X-Frame-Options": "DENY", "X-Robots-Tag": "noindex, nofollow"} {
		if got := open.header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	policy := open.header.Get("Content-Security-Policy")
	if !strings.HasPrefix(policy, "default-src 'none'; style-src 'sha256-") || strings.Contains(policy, "unsafe") || strings.Contains(policy, "script-src") {
		t.Errorf("Content-Security-Policy %q", policy)
	}
	for _, p := range []page{open, set} {
		if outside := regexp.MustCompile(`(?i)https?://|<script|\bsrc=|\son\w+=|style=`).FindString(p.body); outside != "" {
			t.Errorf("%q in %s", outside, p.body)
		}
	}
	if strings.Count(open.body, secret) != 1 || strings.Contains(set.body, secret) {
		t.Errorf("the secret is elsewhere too: %s\n%s", open.body, set.body)
	}
	if log := s.log.String(); strings.Contains(log, secret) || strings.Contains(log, "staple") || !strings.Contains(log, account.ResetPasswordPath) {
		t.Errorf("log %s", log)
	}
}

func TestWhatIsNoFormOfTheseIsRefusedInPlainWords(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	secret := s.mailed(t, mail.VerifyEmail)
	form := secret[strings.Index(secret, "?")+1:]
	post := func(body string, header ...string) page {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, baseURL+account.VerifyEmailPath, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		return s.send(t, r)
	}
	post(form, "Sec-Fetch-Site", "cross-site").wants(t, "another site's form", 403, "sent from another site")
	post(form, "Sec-Fetch-Site", "same-site").wants(t, "a neighbour's form", 403, "sent from another site")
	post(form+"&x="+strings.Repeat("x", 20_000)).wants(t, "a long one", 413, "data is too large")
	post("token=%zz").wants(t, "half a one", 400, "did not arrive completely")
	post(`{"token":"x"}`, "Content-Type", "application/json").wants(t, "JSON", 400, "no longer works")
	post("").wants(t, "nothing", 400, "no longer works")
	s.get(t, account.VerifyEmailPath).wants(t, "no secret", 400, "no longer works")
	hostile := s.get(t, account.VerifyEmailPath+`?token=`+url.QueryEscape(`"><script>alert(1)</script>`))
	if hostile.status != 400 || strings.Contains(hostile.body, "<script") {
		t.Errorf("%d %s", hostile.status, hostile.body)
	}
	post(form+"&password="+url.QueryEscape(password)).wants(t, "after all that", 200, "Your address is confirmed")
}

func TestTooManyRequestsForLinksAreToldWhenToReturn(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	spent := s.get(t, account.ResetPasswordPath)
	for range 60 {
		s.submit(t, spent, map[string]string{"email": "eve@example.com"}).wants(t, "within the limit", 200, "Check your mail")
	}
	over := s.submit(t, spent, map[string]string{"email": ada})
	over.wants(t, "over it", 429, "That did not work")
	if over.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
}
