package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/e2e/outside"
	"github.com/waypost/waypost/internal/mail/smtptest"
)

// mailing are the settings of a service that sends through a sink.
func mailing(sink *smtptest.Server) []string {
	return []string{
		"WAYPOST_SMTP_HOST=127.0.0.1", "WAYPOST_SMTP_PORT=" + sink.Port(), "WAYPOST_SMTP_TLS=none", "WAYPOST_MAIL_FROM=Waypost <waypost@sender.example>",
		"WAYPOST_SMTP_USERNAME=waypost", "WAYPOST_SMTP_PASSWORD=Pl4ntedSMTPPassword",
	}
}

// awaitMail waits for the n-th mail to an address with that in its subject.
func (p *process) awaitMail(t *testing.T, sink *smtptest.Server, to, subject string, n int) smtptest.Mail {
	t.Helper()
	var got []smtptest.Mail
	p.waitFor(t, fmt.Sprintf("mail number %d to %s: %s", n, to, subject), func() bool {
		got = nil
		for _, m := range sink.Mails(to) {
			if strings.Contains(m.Subject, subject) {
				got = append(got, m)
			}
		}
		return len(got) >= n
	})
	return got[n-1]
}

var linkInText = regexp.MustCompile(`https://waypost\.example/account/[a-z-]+\?token=[A-Za-z0-9_-]+`)

// linkOf is the link of a mail, which must be the same in the text and in the HTML, at
// the service as it is reached here.
func linkOf(t *testing.T, p *process, m smtptest.Mail) string {
	t.Helper()
	link := linkInText.FindString(m.Text)
	u, err := url.Parse(link)
	if err != nil || link == "" || strings.Count(m.HTML, `href="`+link+`"`) != 2 || !strings.Contains(m.Text, "  "+u.Query().Get("token")+"\n") {
		t.Fatalf("link %q, %v in %s\n%s", link, err, m.Text, m.HTML)
	}
	return strings.Replace(link, "https://waypost.example", p.url, 1)
}

// bringForward makes jobs that wait for their next attempt due.
func bringForward(t *testing.T, owner *pgx.Conn) {
	t.Helper()
	if _, err := owner.Exec(t.Context(), "update river_job set scheduled_at = now() where kind = 'mails.send' and state in ('retryable', 'scheduled')"); err != nil {
		t.Fatal(err)
	}
}

// mailsOf are the outbox as an ADMIN sees it.
func mailsOf(t *testing.T, p *process, token, query string) []struct {
	ID       json.Number
	Status   string
	Attempts int
	Error    string
	Template string
} {
	t.Helper()
	var list struct {
		Data []struct {
			ID       json.Number
			Status   string
			Attempts int
			Error    string
			Template string
		}
	}
	outside.Do(t, "GET", p.url+"/api/admin/mails?"+query, "", "Authorization", "Bearer "+token).Into(t, &list)
	return list.Data
}

func TestCase36And60MailsReallyLeaveAndTheirLinksWork(t *testing.T) {
	t.Parallel()
	sink := smtptest.Start(t, smtptest.Options{Username: "waypost", Password: "Pl4ntedSMTPPassword"})
	urls := dbtest.NewURL(t)
	p := startServe(t, urls.App, mailing(sink)...)
	owner := connect(t, urls.Owner)
	root := admin(t, p, urls.App)
	post := func(path, body string, status int, header ...string) {
		t.Helper()
		if a := outside.Do(t, "POST", p.url+path, body, append(header, "Content-Type", "application/json")...); a.Status != status {
			t.Fatalf("%s: %d %s", path, a.Status, a.Body)
		}
	}
	secrets := planted{"the SMTP password": "Pl4ntedSMTPPassword"}
	// Abuse cases 50 and 60: a name is no template, and Host decides nothing.
	post("/api/auth/register", `{"first_name":"{{.Code}} <b>Ada","last_name":"Lovelace","email":"ada@example.com","password":"correct horse battery staple"}`, 201,
		"X-Forwarded-Host", "evil.example")
	m := p.awaitMail(t, sink, "ada@example.com", "Confirm your e-mail address", 1)
	if !strings.HasPrefix(m.Text, "Hello {{.Code}} <b>Ada,") || !strings.Contains(m.HTML, "Hello {{.Code}} &lt;b&gt;Ada,") || m.From != "waypost@sender.example" {
		t.Errorf("%s", m.Raw)
	}
	link := linkOf(t, p, m)
	secrets["the first code"] = link[strings.LastIndex(link, "=")+1:]
	if a := submit(t, link, "password", "correct horse battery staple"); a.Status != 200 || !bytesContain(a.Body, "is confirmed") {
		t.Errorf("the link: %d %s", a.Status, a.Body)
	}

	// A server that refuses the password, then takes it: late, and not lost.
	sink.Fail(smtptest.AtAuth, 535)
	post("/api/auth/password/forgot", `{"email":"ada@example.com"}`, 200)
	p.waitFor(t, "a failed attempt", func() bool {
		list := mailsOf(t, p, root, "status=queued&to=ADA@example.com&template=reset")
		return len(list) == 1 && list[0].Attempts >= 1 && strings.Contains(list[0].Error, "535")
	})
	var sealed []byte
	if err := owner.QueryRow(t.Context(), "select secret from mails where status = 'queued'").Scan(&sealed); err != nil || len(sealed) == 0 {
		t.Errorf("%d bytes are sealed, %v", len(sealed), err)
	}
	secrets["what is sealed"] = string(sealed)
	sink.Fail(smtptest.AtAuth, 0)
	bringForward(t, owner)
	link = linkOf(t, p, p.awaitMail(t, sink, "ada@example.com", "Choose a new password", 1))
	secrets["the second code"] = link[strings.LastIndex(link, "=")+1:]
	if a := submit(t, link, "password", "a newer battery staple", "again", "a newer battery staple"); a.Status != 200 {
		t.Errorf("the form: %d %s", a.Status, a.Body)
	}
	p.awaitMail(t, sink, "ada@example.com", "Your password was changed", 1)

	// An ADMIN sends it again: another link, and the first is void.
	post("/api/auth/password/forgot", `{"email":"ada@example.com"}`, 200)
	first := p.awaitMail(t, sink, "ada@example.com", "Choose a new password", 2)
	list := mailsOf(t, p, root, "to=ada@example.com&template=reset&limit=1")
	p.waitFor(t, "the mail's record", func() bool {
		return mailsOf(t, p, root, "to=ada@example.com&template=reset&limit=1")[0].Status == "sent"
	})
	post("/api/admin/mails/"+list[0].ID.String()+"/resend", "", 202, "Authorization", "Bearer "+root)
	second := p.awaitMail(t, sink, "ada@example.com", "Choose a new password", 3)
	if a := outside.Do(t, "GET", linkOf(t, p, first), ""); a.Status != 400 {
		t.Errorf("the first link after another was sent: %d", a.Status)
	}
	if a := outside.Do(t, "GET", linkOf(t, p, second), ""); a.Status != 200 || first.Header.Get("Message-Id") == second.Header.Get("Message-Id") {
		t.Errorf("the second link: %d, Message-ID %s", a.Status, second.Header.Get("Message-Id"))
	}
	secrets["the third code"] = linkInText.FindString(first.Text)[len("https://waypost.example/account/reset-password?token="):]
	p.waitFor(t, "the mail's record", func() bool {
		return mailsOf(t, p, root, "to=ada@example.com&template=reset&limit=1")[0].Status == "sent"
	})

	// Somebody signs in with another program.
	for _, agent := range []string{firefoxAgent, "curl/8.5.0"} {
		post("/api/auth/login", `{"email":"ada@example.com","password":"a newer battery staple"}`, 200, "User-Agent", agent)
	}
	if told := p.awaitMail(t, sink, "ada@example.com", "New sign-in", 1); !strings.Contains(told.Text, "With: curl\n") || !strings.Contains(told.Text, "From: 127.0.0.1\n") {
		t.Errorf("%s", told.Text)
	}
	post("/api/admin/mails/test", `{"to":"operator@example.com"}`, 202, "Authorization", "Bearer "+root)
	p.awaitMail(t, sink, "operator@example.com", "Test mail", 1)
	p.waitFor(t, "records of all", func() bool { return len(mailsOf(t, p, root, "status=queued")) == 0 })

	export := outside.Do(t, "GET", p.url+"/api/admin/audit/export", "", "Authorization", "Bearer "+root)
	var rows []byte
	err := owner.QueryRow(t.Context(), `select convert_to((select string_agg(m::text, '') from mails m) || (select string_agg(j::text, '') from river_job j), 'UTF8')`).Scan(&rows)
	if err != nil {
		t.Fatal(err)
	}
	shown := outside.Do(t, "GET", p.url+"/api/admin/mails/"+list[0].ID.String(), "", "Authorization", "Bearer "+root)
	if !bytesContain(shown.Body, "HIDDEN-SECRET") {
		t.Errorf("%s", shown.Body)
	}
	for where, text := range map[string][]byte{"the audit log": export.Body, "the rows and jobs": rows, "the log": []byte(p.stderr.String()), "the outbox's operation": shown.Body} {
		for _, trace := range secrets.traces(text) {
			t.Errorf("%s has %s", where, trace)
		}
	}
}

const firefoxAgent = "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"

func TestAKillBetweenSendingAndRecordingSendsAtMostOnceMore(t *testing.T) {
	t.Parallel()
	sink := smtptest.Start(t, smtptest.Options{Username: "waypost", Password: "Pl4ntedSMTPPassword"})
	urls := dbtest.NewURL(t)
	owner := connect(t, urls.Owner)
	p := startServe(t, urls.App, mailing(sink)...)
	taken, never := make(chan struct{}, 9), make(chan struct{})
	defer close(never)
	sink.OnData(func(smtptest.Mail) {
		taken <- struct{}{}
		<-never // the server has it, and its answer never arrives
	})
	body := `{"first_name":"Ada","last_name":"Lovelace","email":"ada@example.com","password":"correct horse battery staple"}`
	if a := outside.Do(t, "POST", p.url+"/api/auth/register", body, "Content-Type", "application/json"); a.Status != 201 {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	select {
	case <-taken:
	case <-time.After(outside.Patience):
		t.Fatal("no mail")
	}
	p.kill()
	sink.OnData(nil)
	// Two minutes pass, after which the queue gives the job of a dead process to another.
	for _, statement := range []string{
		"update river_job set attempted_at = attempted_at - interval '10 minutes' where kind = 'mails.send'",
		"set waypost.actor_type = 'cli'; set waypost.action = 'cli:test'; update mails set claimed_until = claimed_until - interval '10 minutes'",
	} {
		if _, err := owner.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	p = startServe(t, urls.App, mailing(sink)...)
	root := admin(t, p, urls.App)
	p.waitFor(t, "the mail's record", func() bool {
		bringForward(t, owner)
		list := mailsOf(t, p, root, "to=ada@example.com")
		return len(list) == 1 && list[0].Status == "sent"
	})
	got := sink.Mails("ada@example.com")
	if len(got) != 2 || got[0].Header.Get("Message-Id") != got[1].Header.Get("Message-Id") || got[0].Header.Get("Date") != got[1].Header.Get("Date") {
		t.Errorf("%d mails: %v", len(got), got)
	}
}

func TestAnInstallationThatConfiguresNoMailStartsAndSaysSo(t *testing.T) {
	t.Parallel()
	p, database := serve(t)
	if log := p.stderr.String(); !strings.Contains(log, `"level":"WARN","msg":"mail is switched off`) || !strings.Contains(log, "WAYPOST_SMTP_HOST") {
		t.Errorf("the log says nothing of it: %s", tail(log, 2000))
	}
	root := admin(t, p, database)
	body := `{"first_name":"Ada","last_name":"Lovelace","email":"ada@example.com","password":"correct horse battery staple"}`
	if a := outside.Do(t, "POST", p.url+"/api/auth/register", body, "Content-Type", "application/json"); a.Status != 201 {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	if list := mailsOf(t, p, root, "to=ada@example.com"); len(list) != 1 || list[0].Status != "suppressed" || list[0].Error == "" {
		t.Errorf("%+v", list)
	}
	if a := outside.Do(t, "GET", p.url+"/readyz", ""); a.Status != 200 || !bytesContain(a.Body, `"mail":"off"`) {
		t.Errorf("%d %s", a.Status, a.Body)
	}
}
