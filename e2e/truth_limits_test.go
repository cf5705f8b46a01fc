package e2e_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"
)

// limits make the calls that are too many.
var limits = calls{
	"login": func(t *testing.T, w *world, call func(request) answer) {
		exceed(call, request{caller: callerNobody, body: fmt.Appendf(nil, `{"email":%q,"password":"not the password"}`, w.newcomer(t).email)})
	},
	"change-password": func(t *testing.T, w *world, call func(request) answer) {
		exceed(call, request{caller: aNewcomer, credentials: w.newcomer(t).credentials,
			body: fmt.Appendf(nil, `{"current_password":"not the password","new_password":%q}`, adminPassword)})
	},
	"verify-email": func(t *testing.T, w *world, call func(request) answer) {
		_, code := w.unverified(t)
		exceed(call, request{caller: callerNobody, body: fmt.Appendf(nil, `{"token":%q,"password":"not the password"}`, code)})
	},
	"change-email": func(t *testing.T, w *world, call func(request) answer) {
		exceed(call, request{caller: aNewcomer, credentials: w.newcomer(t).credentials, body: fmt.Appendf(nil, `{"email":%q}`, w.people[callerUser].email)})
		w.forget(t, "email_change.address")
	},
	"disable-two-factor": func(t *testing.T, w *world, call func(request) answer) {
		exceed(call, request{caller: aNewcomer, credentials: w.enrolled(t).credentials,
			body: fmt.Appendf(nil, `{"code":"no such code","password":%q}`, adminPassword)})
	},
	"renew-recovery-codes": func(t *testing.T, w *world, call func(request) answer) {
		exceed(call, request{caller: aNewcomer, credentials: w.enrolled(t).credentials, body: codeBody("no such code")})
	},
	"refresh-session": func(t *testing.T, w *world, call func(request) answer) {
		p := w.newcomer(t)
		w.signIn(t, p)
		var next struct {
			Data struct {
				Token string `json:"refresh_token"`
			}
		}
		w.must(t, "POST", "/api/auth/refresh", nil, map[string]string{"refresh_token": p.refresh}).into(t, &next)
		w.after(t, "refresh.session", 300, func() {
			call(request{name: "too many", caller: callerNobody, body: fmt.Appendf(nil, `{"refresh_token":%q}`, next.Data.Token)})
		})
	},
	"verify-two-factor": func(t *testing.T, w *world, call func(request) answer) {
		exceed(call, request{caller: callerNobody, body: secondStep(w.firstStep(t, w.enrolled(t)), "no such code")})
	},
	"send-test-mail": func(_ *testing.T, w *world, call func(request) answer) {
		exceed(call, request{caller: callerAdmin, body: fmt.Appendf(nil, `{"to":"tested-%s@example.com"}`, w.next())})
	},
	"resend-mail": func(t *testing.T, w *world, call func(request) answer) {
		to := "mailed-" + w.next()
		call(request{name: "once", caller: callerAdmin, params: w.makeMail(t, to, "test", "sent")})
		w.behind(t, "update mail_allowances set times = array_fill(now(), array[10]) where address = sha256($1)", []byte(to+"@example.com"))
		call(request{name: "too many", caller: callerAdmin, params: w.makeMail(t, to, "test", "sent")})
	},
	"update-user": tooManyAddresses,
	"put-user":    tooManyAddresses,
	"request-password-reset": func(t *testing.T, w *world, call func(request) answer) {
		w.after(t, "forgot.address", 60, func() {
			call(request{name: "too many", caller: callerNobody, body: []byte(`{"email":"nobody@example.com"}`)})
		})
	},
	"resend-verification-mail": func(t *testing.T, w *world, call func(request) answer) {
		w.after(t, "verification.address", 60, func() {
			call(request{name: "too many", caller: callerNobody, body: []byte(`{"email":"nobody@example.com"}`)})
		})
	},
	"register-user": func(t *testing.T, w *world, call func(request) answer) {
		w.after(t, "register.address", 60, func() {
			call(request{name: "too many", caller: callerNobody,
				body: fmt.Appendf(nil, `{"first_name":"New","last_name":"User","email":"late@example.com","password":%q}`, adminPassword)})
		})
	},
	"start-oauth-login": func(t *testing.T, w *world, call func(request) answer) {
		w.after(t, "oauth_start.address", 600, func() {
			call(request{name: "too many", caller: callerNobody, params: map[string]string{"provider": "google"}})
		})
	},
	"collect-hit": func(_ *testing.T, w *world, call func(request) answer) {
		exceed(call, request{caller: callerNobody, at: w.strictURL, body: fmt.Appendf(nil, `{"site_key":%q,"url":"https://example.com/"}`, w.siteKey)})
	},
	"collect-events": func(_ *testing.T, w *world, call func(request) answer) {
		exceed(call, request{caller: callerFeeder, at: w.strictURL,
			body: fmt.Appendf(nil, `{"events":[{"event_id":"late","ts":%q,"url":"https://example.com/"}]}`, time.Now().UTC().Format(time.RFC3339))})
	},
	"get-stats-events":     tooManyReads,
	"get-stats-geo":        tooManyReads,
	"get-stats-pages":      tooManyReads,
	"get-stats-realtime":   tooManyReads,
	"get-stats-referrers":  tooManyReads,
	"get-stats-summary":    tooManyReads,
	"get-stats-tech":       tooManyReads,
	"get-stats-timeseries": tooManyReads,
}

// tooManyAddresses tries for another address of one's own, which is taken.
func tooManyAddresses(t *testing.T, w *world, call func(request) answer) {
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

func tooManyReads(t *testing.T, w *world, call func(request) answer) {
	exceed(call, request{caller: callerReader, at: w.strictURL})
	unlock := hangAnswers(t, w.database.Owner)
	defer unlock()
	call(request{name: "too expensive", caller: callerReader, at: w.hastyURL})
}

// exceed makes a call until it is too many.
func exceed(call func(request) answer, r request) {
	for n := range 12 {
		r.name = fmt.Sprintf("number %d", n+1)
		if call(r).status == http.StatusTooManyRequests {
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
	w.must(t, "POST", "/api/auth/login", nil, map[string]string{"email": p.email, "password": adminPassword}).into(t, &first)
	return first.Data.Token
}

func secondStep(token, code string) []byte {
	return []byte(jsonText(map[string]string{"mfa_token": token, "code": code}))
}

// deactivate shuts somebody out.
func (w *world) deactivate(t *testing.T, email string) {
	t.Helper()
	var found struct{ Data []struct{ ID jsonNumber } }
	w.must(t, "GET", "/api/users?q="+email, w.credentials[callerAdmin], nil).into(t, &found)
	w.must(t, "PATCH", "/api/users/"+found.Data[0].ID.String(), w.credentials[callerAdmin], map[string]bool{"active": false})
}
