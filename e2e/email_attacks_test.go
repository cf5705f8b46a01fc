package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/e2e/outside"
	"github.com/waypost/waypost/internal/mail/smtptest"
)

// scene is a service that mails, and the people who use it over HTTP alone.
type scene struct {
	p     *process
	sink  *smtptest.Server
	urls  dbtest.URLs
	owner *pgx.Conn
}

func newScene(t *testing.T) scene {
	t.Helper()
	sink := smtptest.Start(t, smtptest.Options{Username: "waypost", Password: "Pl4ntedSMTPPassword"})
	urls := dbtest.NewURL(t)
	return scene{p: startServe(t, urls.App, mailing(sink)...), sink: sink, urls: urls, owner: connect(t, urls.Owner)}
}

// post sends JSON, as whoever has the token; "" is nobody.
func (s scene) post(t *testing.T, token, path string, body map[string]string) outside.Answer {
	t.Helper()
	return s.send(t, "POST", token, path, body)
}

func (s scene) send(t *testing.T, method, token, path string, body any) outside.Answer {
	t.Helper()
	header := []string{"Content-Type", "application/json"}
	if token != "" {
		header = append(header, outside.Bearer(token)...)
	}
	text := ""
	if body != nil {
		text = outside.JSON(body)
	}
	return outside.Do(t, method, s.p.url+path, text, header...)
}

func (s scene) wants(t *testing.T, what string, a outside.Answer, status int, code string) {
	t.Helper()
	if a.Status != status || code != "" && a.ErrorCode() != code {
		t.Errorf("%s: %d %s, want %d %s", what, a.Status, a.Body, status, code)
	}
}

func (s scene) register(t *testing.T, email, password string) {
	t.Helper()
	a := s.post(t, "", "/api/auth/register", map[string]string{"first_name": "New", "last_name": "User", "email": email, "password": password})
	s.wants(t, "register "+email, a, 201, "")
}

// verified registers somebody who follows the link, and signs in.
func (s scene) verified(t *testing.T, email string) string {
	t.Helper()
	s.register(t, email, outside.Password)
	a := s.post(t, "", "/api/auth/verify-email", map[string]string{"token": s.code(t, email, "Confirm your e-mail address", 1), "password": outside.Password})
	s.wants(t, "verify "+email, a, 200, "")
	return signIn(t, s.p, email, outside.Password)
}

// code is that of the n-th mail to an address with that in its subject.
func (s scene) code(t *testing.T, to, subject string, n int) string {
	t.Helper()
	link := linkOf(t, s.p, s.p.awaitMail(t, s.sink, to, subject, n))
	s.p.awaitUse(t, link)
	return link[strings.LastIndex(link, "=")+1:]
}

// settle waits until all that was asked for was mailed.
func (s scene) settle(t *testing.T) {
	t.Helper()
	s.p.waitFor(t, "an idle queue", func() bool {
		n := 0
		err := s.owner.QueryRow(t.Context(), `select count(*) from river_job where kind like any ('{accounts.%,mails.send}') and finalized_at is null`).Scan(&n)
		if err != nil {
			t.Fatal(err)
		}
		return n == 0
	})
}

var updatedAt = regexp.MustCompile(`"updated_at":"[^"]*"`)

// told is all of an answer by which two could be told apart.
func told(a outside.Answer) string {
	return fmt.Sprint(a.Status, " ", a.Header.Get("Content-Type"), " ", a.Header.Get("Cache-Control"), " ", a.Header.Get("Location"), " ", string(a.Body))
}

// Somebody with a few accounts asks for others' addresses, to fill their mailboxes and to
// learn who has an account.
func TestAttackersFillNobodysMailboxAndLearnNothingByAskingForAddresses(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	const member, stranger = "member@example.com", "stranger@example.com"
	s.verified(t, member)
	before := len(s.sink.Mails(member))
	for n := range 2 {
		email := fmt.Sprintf("eve-%d@example.com", n)
		eve := s.verified(t, email)
		var me struct{ Data struct{ ID json.Number } }
		outside.Do(t, "GET", s.p.url+"/api/auth/me", "", outside.Bearer(eve)...).Into(t, &me)
		var answers [2][]string
		refusedAt := 0
		for i := range 12 {
			to := []string{member, stranger}[i%2]
			method, path := "POST", "/api/auth/email/change"
			if i%4 >= 2 {
				method, path = "PATCH", "/api/users/"+me.Data.ID.String()
			}
			a := s.send(t, method, eve, path, map[string]string{"email": to})
			switch {
			case a.Status == http.StatusTooManyRequests && refusedAt == 0:
				refusedAt = i
			case a.Status < 400:
				// What a self-update answers has the time at which it was made.
				answers[i%2] = append(answers[i%2], updatedAt.ReplaceAllString(told(a), ""))
				s.settle(t) // so that no wish replaces another before its mail
			}
			if strings.Contains(string(a.Body), to) {
				t.Errorf("%s was answered before it was proved: %s", to, a.Body)
			}
		}
		if diff := cmp.Diff(answers[0], answers[1]); diff != "" || refusedAt != 10 {
			t.Errorf("who has an account is answered otherwise, or later than at ten: %d\n%s", refusedAt, diff)
		}
	}
	s.settle(t)
	got, want := len(s.sink.Mails(stranger)), len(s.sink.Mails(member))-before
	if got != want || got == 0 || got > 5 {
		t.Errorf("the stranger got %d mails, the member %d, want as many, at most 5", got, want)
	}
	for _, m := range s.sink.Mails(member)[before:] {
		if linkInText.MatchString(m.Text) {
			t.Errorf("a member got a link: %s", m.Text)
		}
	}
	signIn(t, s.p, member, outside.Password)
}

// A thief has somebody's access token for a quarter of an hour, and wants the account for
// good.
func TestAStolenTokenKeepsNoAccountForGood(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	const ada, thief = "ada@example.com", "thief@elsewhere.example"
	stolen := s.verified(t, ada)
	var made struct{ Data struct{ Token string } }
	a := s.send(t, "POST", stolen, "/api/auth/tokens", map[string]any{"name": "Left behind", "scopes": []string{"read", "write"}})
	s.wants(t, "a token", a, 201, "")
	a.Into(t, &made)
	s.wants(t, "the change", s.post(t, stolen, "/api/auth/email/change", map[string]string{"email": thief}), 202, "")
	code := s.code(t, thief, "Confirm your new e-mail address", 1)
	if a := outside.Do(t, "GET", s.p.url+"/api/auth/me", "", outside.Bearer(stolen)...); !bytesContain(a.Body, ada) {
		t.Errorf("the change took effect before its proof: %s", a.Body)
	}
	s.wants(t, "confirmed", s.post(t, "", "/api/auth/email/confirm", map[string]string{"token": code}), 200, "")
	s.wants(t, "forgot", s.post(t, "", "/api/auth/password/forgot", map[string]string{"email": thief}), 200, "")
	s.wants(t, "the thief's password", s.post(t, "", "/api/auth/password/reset", map[string]string{
		"token": s.code(t, thief, "Choose a new password", 1), "password": "the thief's own password",
	}), 200, "")
	in := signIn(t, s.p, thief, "the thief's own password")
	// On to a third address, and the first may not be had by anybody meanwhile.
	s.wants(t, "on", s.post(t, in, "/api/auth/email/change", map[string]string{"email": "third@elsewhere.example"}), 202, "")
	next := s.code(t, "third@elsewhere.example", "Confirm your new e-mail address", 1)
	s.wants(t, "the kept address", s.post(t, "", "/api/auth/register", map[string]string{
		"first_name": "Eve", "last_name": "Ve", "email": ada, "password": outside.Password,
	}), 409, "email_taken")

	notice := s.p.awaitMail(t, s.sink, ada, "Your e-mail address was changed", 1)
	if !strings.Contains(notice.Text, "From: 127.0.0.1") {
		t.Errorf("%s", notice.Text)
	}
	undo := linkOf(t, s.p, notice)
	for range 2 { // scanners look at links
		s.wants(t, "opened", outside.Do(t, "GET", undo, ""), 200, "")
	}
	if a := submit(t, undo); a.Status != 200 || !bytesContain(a.Body, "taken back") {
		t.Errorf("the button: %d %s", a.Status, a.Body)
	}
	for what, token := range map[string]string{"the stolen token": stolen, "the thief's session": in, "the API token": made.Data.Token} {
		s.wants(t, what, outside.Do(t, "GET", s.p.url+"/api/auth/me", "", outside.Bearer(token)...), 401, "")
	}
	for _, email := range []string{ada, thief} {
		for _, password := range []string{"the thief's own password", outside.Password} {
			s.wants(t, email+" with "+password, s.post(t, "", "/api/auth/login", map[string]string{"email": email, "password": password}), 401, "invalid_credentials")
		}
	}
	s.wants(t, "the next change", s.post(t, "", "/api/auth/email/confirm", map[string]string{"token": next}), 400, "link_invalid")
	s.wants(t, "the undo again", s.post(t, "", "/api/auth/email/undo", map[string]string{"token": undo[strings.LastIndex(undo, "=")+1:]}), 400, "link_invalid")
	s.wants(t, "the owner's reset", s.post(t, "", "/api/auth/password/reset", map[string]string{
		"token": s.code(t, ada, "Choose a new password", 1), "password": "the owner's new password",
	}), 200, "")
	signIn(t, s.p, ada, "the owner's new password")
}

// Somebody registers the victim's address, prepares ways to come back, and waits until
// the victim confirms it or asks for another password.
func TestWhoRegistersAStrangersAddressKeepsNoWayIn(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	claims := map[string]func(victim string){
		"confirms": func(victim string) {
			token := s.code(t, victim, "Confirm your e-mail address", 1)
			s.wants(t, "the link alone", s.post(t, "", "/api/auth/verify-email", map[string]string{"token": token}), 403, "password_required")
			s.wants(t, "a guess", s.post(t, "", "/api/auth/verify-email", map[string]string{"token": token, "password": "not the password"}), 401, "invalid_credentials")
			s.wants(t, "taking over", s.post(t, "", "/api/auth/verify-email", map[string]string{"token": token, "new_password": "the victim's own password"}), 200, "")
		},
		"forgets": func(victim string) {
			s.wants(t, "forgot", s.post(t, "", "/api/auth/password/forgot", map[string]string{"email": victim}), 200, "")
			token := s.code(t, victim, "Choose a new password", 1)
			s.wants(t, "reset", s.post(t, "", "/api/auth/password/reset", map[string]string{"token": token, "password": "the victim's own password"}), 200, "")
		},
	}
	for how, claim := range claims {
		victim, attackers := "victim-who-"+how+"@example.com", "attacker-of-who-"+how+"@elsewhere.example"
		s.register(t, victim, outside.Password)
		var in struct {
			Data struct {
				AccessToken  string `json:"access_token"`
				RefreshToken string `json:"refresh_token"`
			}
		}
		s.post(t, "", "/api/auth/login", map[string]string{"email": victim, "password": outside.Password}).Into(t, &in)
		attacker := in.Data.AccessToken
		for path, body := range map[string]any{
			"/api/auth/tokens":     map[string]any{"name": "A way back", "scopes": []string{"read"}},
			"/api/auth/2fa/setup":  nil,
			"/api/auth/identities": map[string]string{"code": "any", "code_verifier": "a-verifier-of-the-client-s-own-of-43-or-more-letters"},
		} {
			s.wants(t, path, s.send(t, "POST", attacker, path, body), 403, "email_unverified")
		}
		s.wants(t, "a change that waits", s.post(t, attacker, "/api/auth/email/change", map[string]string{"email": attackers}), 202, "")
		waiting := s.code(t, attackers, "Confirm your new e-mail address", 1)

		claim(victim)
		s.wants(t, how+": the attacker's session", outside.Do(t, "GET", s.p.url+"/api/auth/me", "", outside.Bearer(attacker)...), 401, "session_revoked")
		s.wants(t, how+": the attacker's refresh", s.post(t, "", "/api/auth/refresh", map[string]string{"refresh_token": in.Data.RefreshToken}), 401, "")
		s.wants(t, how+": the attacker's password", s.post(t, "", "/api/auth/login", map[string]string{"email": victim, "password": outside.Password}), 401, "invalid_credentials")
		s.wants(t, how+": the change that waited", s.post(t, "", "/api/auth/email/confirm", map[string]string{"token": waiting}), 400, "link_invalid")
		mine := signIn(t, s.p, victim, "the victim's own password")
		s.wants(t, how+": the victim's token", s.send(t, "POST", mine, "/api/auth/tokens", map[string]any{"name": "Mine", "scopes": []string{"read"}}), 201, "")
	}
}

// Two instances get one link at once, and an undo beside the next confirmation.
func TestOfOneLinkAtTwoInstancesOneIsTaken(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	there := startServe(t, s.urls.App, mailing(s.sink)...)
	ada := s.verified(t, "ada@example.com")
	at := func(p *process, path, code string) outside.Answer {
		return outside.Do(t, "POST", p.url+path, outside.JSON(map[string]string{"token": code}), "Content-Type", "application/json")
	}
	both := func(path, code string) (ok int) {
		t.Helper()
		var answers [4]outside.Answer
		var wg sync.WaitGroup
		for i := range answers {
			wg.Go(func() { answers[i] = at([]*process{s.p, there}[i%2], path, code) })
		}
		wg.Wait()
		for _, a := range answers {
			if a.Status == 200 {
				ok++
			} else {
				s.wants(t, path, a, 400, "link_invalid")
			}
		}
		return ok
	}
	s.wants(t, "the change", s.post(t, ada, "/api/auth/email/change", map[string]string{"email": "ada@example.org"}), 202, "")
	if n := both("/api/auth/email/confirm", s.code(t, "ada@example.org", "Confirm your new e-mail address", 1)); n != 1 {
		t.Errorf("%d of 4 confirmations were taken", n)
	}
	if n := both("/api/auth/email/undo", s.code(t, "ada@example.com", "Your e-mail address was changed", 1)); n != 1 {
		t.Errorf("%d of 4 undos were taken", n)
	}
	s.settle(t)
	if n := len(s.sink.Mails("ada@example.com")); n != 3 { // to verify, to undo, to choose a password
		t.Errorf("%d mails to the owner", n)
	}
}
