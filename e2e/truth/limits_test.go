package truth_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/e2e/outside"
)

// limits make the calls that are too many.
var limits = calls{
	"login": func(t *testing.T, w *world, call func(request) outside.Answer) {
		exceed(call, request{caller: callerNobody, body: fmt.Appendf(nil, `{"email":%q,"password":"not the password"}`, w.newcomer(t).email)})
	},
	"change-password": func(t *testing.T, w *world, call func(request) outside.Answer) {
		exceed(call, request{caller: aNewcomer, credentials: w.newcomer(t).credentials,
			body: fmt.Appendf(nil, `{"current_password":"not the password","new_password":%q}`, outside.Password)})
	},
	"verify-email": func(t *testing.T, w *world, call func(request) outside.Answer) {
		_, code := w.unverified(t)
		exceed(call, request{caller: callerNobody, body: fmt.Appendf(nil, `{"token":%q,"password":"not the password"}`, code)})
	},
	"change-email": func(t *testing.T, w *world, call func(request) outside.Answer) {
		exceed(call, request{caller: aNewcomer, credentials: w.newcomer(t).credentials, body: fmt.Appendf(nil, `{"email":%q}`, w.people[callerUser].email)})
		w.forget(t, "email_change.address")
	},
	"disable-two-factor": func(t *testing.T, w *world, call func(request) outside.Answer) {
		exceed(call, request{caller: aNewcomer, credentials: w.enrolled(t).credentials,
			body: fmt.Appendf(nil, `{"code":"no such code","password":%q}`, outside.Password)})
	},
	"renew-recovery-codes": func(t *testing.T, w *world, call func(request) outside.Answer) {
		exceed(call, request{caller: aNewcomer, credentials: w.enrolled(t).credentials, body: codeBody("no such code")})
	},
	"refresh-session": func(t *testing.T, w *world, call func(request) outside.Answer) {
		p := w.newcomer(t)
		w.signIn(t, p)
		var next struct {
			Data struct {
				Token string `json:"refresh_token"`
			}
		}
		w.must(t, "POST", "/api/auth/refresh", nil, map[string]string{"refresh_token": p.refresh}).Into(t, &next)
		w.after(t, "refresh.session", 300, func() {
			call(request{name: "too many", caller: callerNobody, body: fmt.Appendf(nil, `{"refresh_token":%q}`, next.Data.Token)})
		})
	},
	"verify-two-factor": func(t *testing.T, w *world, call func(request) outside.Answer) {
		exceed(call, request{caller: callerNobody, body: secondStep(w.firstStep(t, w.enrolled(t)), "no such code")})
	},
	"send-test-mail": func(_ *testing.T, w *world, call func(request) outside.Answer) {
		exceed(call, request{caller: callerAdmin, body: fmt.Appendf(nil, `{"to":"tested-%s@example.com"}`, w.next())})
	},
	"resend-mail": func(t *testing.T, w *world, call func(request) outside.Answer) {
		to := "mailed-" + w.next()
		call(request{name: "once", caller: callerAdmin, params: w.makeMail(t, to, "test", "sent")})
		w.behind(t, "update mail_allowances set times = array_fill(now(), array[10]) where address = sha256($1)", []byte(to+"@example.com"))
		call(request{name: "too many", caller: callerAdmin, params: w.makeMail(t, to, "test", "sent")})
	},
	"update-user": tooManyAddresses,
	"put-user":    tooManyAddresses,
	"request-password-reset": func(t *testing.T, w *world, call func(request) outside.Answer) {
		w.after(t, "forgot.address", 60, func() {
			call(request{name: "too many", caller: callerNobody, body: []byte(`{"email":"nobody@example.com"}`)})
		})
	},
	"resend-verification-mail": func(t *testing.T, w *world, call func(request) outside.Answer) {
		w.after(t, "verification.address", 60, func() {
			call(request{name: "too many", caller: callerNobody, body: []byte(`{"email":"nobody@example.com"}`)})
		})
	},
	"register-user": func(t *testing.T, w *world, call func(request) outside.Answer) {
		w.after(t, "register.address", 60, func() {
			call(request{name: "too many", caller: callerNobody,
				body: fmt.Appendf(nil, `{"first_name":"New","last_name":"User","email":"late@example.com","password":%q}`, outside.Password)})
		})
	},
	"start-oauth-login": func(t *testing.T, w *world, call func(request) outside.Answer) {
		w.after(t, "oauth_start.address", 600, func() {
			call(request{name: "too many", caller: callerNobody, params: map[string]string{"provider": "google"}})
		})
	},
	"collect-hit": func(_ *testing.T, w *world, call func(request) outside.Answer) {
		exceed(call, request{caller: callerNobody, at: w.strictURL, body: fmt.Appendf(nil, `{"site_key":%q,"url":"https://example.com/"}`, w.siteKey)})
	},
	"collect-events": func(_ *testing.T, w *world, call func(request) outside.Answer) {
		exceed(call, request{caller: callerFeeder, at: w.strictURL,
			body: fmt.Appendf(nil, `{"events":[{"event_id":"late","ts":%q,"url":"https://example.com/"}]}`, time.Now().UTC().Format(time.RFC3339))})
	},
	"get-stats-events":     tooManyReads(nil),
	"get-stats-geo":        tooManyReads(nil),
	"get-stats-pages":      tooManyReads(nil),
	"get-stats-realtime":   tooManyReads(nil),
	"get-stats-referrers":  tooManyReads(nil),
	"get-stats-report":     tooManyReads(url.Values{"questions": {"summary"}}),
	"get-stats-site":       tooManyReads(nil),
	"get-stats-summary":    tooManyReads(nil),
	"get-stats-tech":       tooManyReads(nil),
	"get-stats-timeseries": tooManyReads(nil),

	"get-site-stats-events":     tooExpensive(nil),
	"get-site-stats-geo":        tooExpensive(nil),
	"get-site-stats-pages":      tooExpensive(nil),
	"get-site-stats-realtime":   tooExpensive(nil),
	"get-site-stats-referrers":  tooExpensive(nil),
	"get-site-stats-report":     tooExpensive(url.Values{"questions": {"summary"}}),
	"get-site-stats-site":       tooExpensive(nil),
	"get-site-stats-summary":    tooExpensive(nil),
	"get-site-stats-tech":       tooExpensive(nil),
	"get-site-stats-timeseries": tooExpensive(nil),
}

// tooManyAddresses tries for another address of one's own, which is taken.
func tooManyAddresses(t *testing.T, w *world, call func(request) outside.Answer) {
	p := w.newcomer(t)
	exceed(call, request{caller: aNewcomer, credentials: p.credentials, params: w.idOf(t, p.credentials),
		body: fmt.Appendf(nil, `{"email":%q}`, w.people[callerUser].email)})
	w.forget(t, "email_change.address")
}

// forget forgives what was counted under a name.
func (w *world) forget(t *testing.T, name string) {
	t.Helper()
	w.behind(t, "update throttles set count = 0 where name = $1", name)
}

func tooManyReads(query url.Values) func(*testing.T, *world, func(request) outside.Answer) {
	return func(t *testing.T, w *world, call func(request) outside.Answer) {
		exceed(call, request{caller: callerReader, at: w.strictURL, query: query})
		unlock := dbtest.Lock(t, w.database.Owner, "lock table rollup_days in access exclusive mode") // which every answer reads
		defer unlock()
		call(request{name: "too expensive", caller: callerReader, at: w.hastyURL, query: query})
	}
}

// tooExpensive asks about a named site what takes too long.
func tooExpensive(query url.Values) func(*testing.T, *world, func(request) outside.Answer) {
	return func(t *testing.T, w *world, call func(request) outside.Answer) {
		unlock := dbtest.Lock(t, w.database.Owner, "lock table rollup_days in access exclusive mode") // which every answer reads
		defer unlock()
		call(request{name: "too expensive", caller: callerAdmin, at: w.hastyURL, params: w.makeSite(t), query: query})
	}
}

// exceed makes a call until it is too many.
func exceed(call func(request) outside.Answer, r request) {
	for n := range 12 {
		r.name = fmt.Sprintf("number %d", n+1)
		if call(r).Status == http.StatusTooManyRequests {
			return
		}
	}
}

// after does what comes after so many successes that are counted under a name,
// which would take long, and takes them back.
func (w *world) after(t *testing.T, name string, count int, do func()) {
	t.Helper()
	const sql = "update throttles set count = $1 where name = $2"
	w.behind(t, sql, count, name)
	do()
	w.behind(t, sql, 0, name)
}

// firstStep signs in as somebody with a second factor, up to that.
func (w *world) firstStep(t *testing.T, p *person) string {
	t.Helper()
	var first struct {
		Data struct {
			Token string `json:"mfa_token"`
		}
	}
	w.must(t, "POST", "/api/auth/login", nil, map[string]string{"email": p.email, "password": outside.Password}).Into(t, &first)
	return first.Data.Token
}

func secondStep(token, code string) []byte {
	return []byte(outside.JSON(map[string]string{"mfa_token": token, "code": code}))
}

// deactivate shuts somebody out.
func (w *world) deactivate(t *testing.T, email string) {
	t.Helper()
	var found struct{ Data []struct{ ID json.Number } }
	w.must(t, "GET", "/api/users?q="+email, w.credentials[callerAdmin], nil).Into(t, &found)
	w.must(t, "PATCH", "/api/users/"+found.Data[0].ID.String(), w.credentials[callerAdmin], map[string]bool{"active": false})
}
