package truth_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/waypost/waypost/e2e/outside"
	"github.com/waypost/waypost/internal/identity"
)

// preparations complete a valid request with what no example can know.
var preparations = map[string]func(*testing.T, *world, *request){
	"collect-events": func(_ *testing.T, w *world, r *request) {
		r.body = fmt.Appendf(nil, `{"events":[{"event_id":%q,"ts":%q,"url":"https://example.com/"},{}]}`, w.next(), time.Now().UTC().Format(time.RFC3339))
	},
	"collect-hit": func(_ *testing.T, w *world, r *request) {
		r.body = fmt.Appendf(nil, `{"site_key":%q,"url":"https://example.com/"}`, w.siteKey)
	},
	"erase-audit-entries": func(t *testing.T, w *world, r *request) {
		_, ids := w.makeUser(t)
		r.body = []byte(outside.JSON(map[string]string{"table": "users", "row_id": ids["id"]}))
	},
	"get-webhook-challenge": func(_ *testing.T, _ *world, r *request) {
		r.params["provider"], r.query = "asking", url.Values{"token": {askingToken}, "challenge": {"a.b_c-9"}}
	},
	// Sizes that need no checkpoint, for none may be signed yet.
	"get-audit-consistency": func(t *testing.T, w *world, r *request) {
		r.query.Set("old", "1")
		r.query.Set("new", w.newestEntry(t)["seq"])
	},
	"get-audit-proof": func(_ *testing.T, _ *world, r *request) { r.query.Set("size", r.params["seq"]) },
	"create-blog": func(_ *testing.T, w *world, r *request) {
		r.body = fmt.Appendf(nil, `{"title":"A blog","content":"Text","published":true,"slug":"made-%s"}`, w.next())
	},
	"get-stats-report":      someQuestions,
	"get-site-stats-report": someQuestions,
	"put-blog":              ofBlog,
	"update-blog":           ofBlog,
	"create-upload": func(_ *testing.T, _ *world, r *request) {
		r.body, r.header = outside.Form("text/plain", "Notes on the engine.")
	},
	"complete-upload":      func(t *testing.T, w *world, r *request) { r.params = w.makeStaged(t, "Notes on the engine.", "") },
	"get-upload-thumbnail": func(t *testing.T, w *world, r *request) { r.params = w.makePicture(t) },
	"create-user": func(_ *testing.T, w *world, r *request) {
		r.body = fmt.Appendf(nil, `{"first_name":"New","last_name":"User","email":"made-%s@example.com"}`, w.next())
	},
	"register-user": func(_ *testing.T, w *world, r *request) {
		r.body = fmt.Appendf(nil, `{"first_name":"New","last_name":"User","email":"self-%s@example.com","password":%q}`, w.next(), outside.Password)
	},
	"send-test-mail": func(_ *testing.T, w *world, r *request) {
		r.body = fmt.Appendf(nil, `{"to":"tested-%s@example.com"}`, w.next())
	},
	"resume-queue": func(t *testing.T, w *world, r *request) {
		w.behind(t, `update river_queue set paused_at = now() where name = $1`, r.params["name"])
	},
	"change-password": func(_ *testing.T, _ *world, r *request) {
		r.body = fmt.Appendf(nil, `{"current_password":%q,"new_password":%q}`, outside.Password, outside.Password)
	},
	"login": func(_ *testing.T, w *world, r *request) { r.body = loginAs(w.people[callerAdmin]) },
	"refresh-session": func(t *testing.T, w *world, r *request) {
		p := &person{email: w.people[callerEditor].email}
		w.signIn(t, p)
		r.body = fmt.Appendf(nil, `{"refresh_token":%q}`, p.refresh)
	},
	"verify-email": func(t *testing.T, w *world, r *request) {
		_, code := w.unverified(t)
		r.body = fmt.Appendf(nil, `{"token":%q,"new_password":%q}`, code, outside.Password)
	},
	"change-email": func(_ *testing.T, w *world, r *request) {
		r.body = fmt.Appendf(nil, `{"email":"wanted-%s@example.com"}`, w.next())
	},
	"confirm-email-change": func(t *testing.T, w *world, r *request) {
		_, code := w.asked(t, w.newcomer(t))
		r.body = tokenBody(code)
	},
	"undo-email-change": func(t *testing.T, w *world, r *request) {
		p := w.newcomer(t)
		_, code := w.asked(t, p)
		w.must(t, "POST", "/api/auth/email/confirm", nil, map[string]string{"token": code})
		r.body = tokenBody(w.log.code(t, p.email, 1))
	},
	"reset-password": func(t *testing.T, w *world, r *request) {
		email, _ := w.makeUser(t)
		r.body = fmt.Appendf(nil, `{"token":%q,"password":%q}`, w.log.code(t, email, 1), outside.Password)
	},
	"exchange-oauth-code": func(t *testing.T, w *world, r *request) {
		w.stranger(w.google)
		r.body = w.oauthCode(t, "google")
	},
	"finish-oauth-login": func(t *testing.T, w *world, r *request) {
		w.stranger(w.google)
		back := w.comeBack(t, "google", false)
		r.query, r.header = back.query, back.header
	},
	"link-identity": func(t *testing.T, w *world, r *request) {
		w.stranger(w.google)
		r.body = w.oauthCode(t, "google")
	},
	"unlink-identity":              ofPerson(func(t *testing.T, w *world, r *request) { r.params["id"] = w.link(t, r.caller) }),
	"create-api-token":             anyToken,
	"create-service-account-token": anyToken,
	"rotate-api-token": ofPerson(func(t *testing.T, w *world, r *request) {
		r.params["id"] = w.makeToken(t, r.caller, []string{"read"}).ID
	}),
	"revoke-api-token": ofPerson(func(t *testing.T, w *world, r *request) {
		r.params["id"] = w.makeToken(t, r.caller, []string{"read"}).ID
	}),
	"end-session": ofPerson(func(t *testing.T, w *world, r *request) {
		p := &person{email: w.people[r.caller].email}
		w.signIn(t, p)
		var sessions struct{ Data []struct{ ID string } }
		w.must(t, "GET", "/api/auth/sessions?limit=1", p.credentials, nil).Into(t, &sessions)
		r.params["id"] = sessions.Data[0].ID
	}),
}

// ofBlog leaves the slug as it is: that of the example is another's.
func ofBlog(_ *testing.T, _ *world, r *request) {
	r.body = []byte(`{"title":"Another title","published":true}`)
}

// ofPerson prepares what only somebody with an account has; others name an id
// that says nothing to them.
func ofPerson(prepare func(*testing.T, *world, *request)) func(*testing.T, *world, *request) {
	return func(t *testing.T, w *world, r *request) {
		r.params["id"] = "1"
		if w.people[r.caller] != nil {
			prepare(t, w, r)
		}
	}
}

func loginAs(p *person) []byte {
	return fmt.Appendf(nil, `{"email":%q,"password":%q}`, p.email, outside.Password)
}

// signatures sign the bytes that are sent, whatever they are.
var signatures = map[string]func(request) []string{
	"receive-webhook": func(r request) []string {
		if r.name == unsigned {
			return nil
		}
		return []string{"Payment-Signature", outside.PaymentSignature(outside.PaymentSecret, string(r.body))}
	},
}

const (
	// askingToken is what the provider that asks by GET proves itself with.
	askingToken = "a token of the provider that asks"
	unsigned    = "unsigned"
	aNewcomer   = "a newcomer"
)

// calls are made by operation.
type calls map[string]func(*testing.T, *world, func(request) outside.Answer)

// specials make the calls that an operation's rarer statuses need.
var specials = calls{
	"login": func(t *testing.T, w *world, call func(request) outside.Answer) {
		call(request{name: "a wrong password", caller: callerNobody, body: []byte(`{"email":"editor@example.com","password":"not the password"}`)})
		call(request{name: "a second factor", caller: callerNobody, body: loginAs(w.enrolled(t))})
		p := w.newcomer(t)
		w.deactivate(t, p.email)
		call(request{name: "deactivated", caller: callerNobody, body: loginAs(p)})
	},
	"receive-webhook": func(_ *testing.T, _ *world, call func(request) outside.Answer) {
		call(request{name: unsigned, caller: callerNobody, params: map[string]string{"provider": "payment"}, body: []byte("{}")})
	},
	"get-webhook-challenge": func(_ *testing.T, _ *world, call func(request) outside.Answer) {
		asking := map[string]string{"provider": "asking"}
		call(request{name: "without the token", caller: callerNobody, params: asking, query: url.Values{"challenge": {"1"}}})
		call(request{name: "with another's token", caller: callerNobody, params: asking, query: url.Values{"challenge": {"1"}, "token": {"another's"}}})
		call(request{name: "a value that is not sent back", caller: callerNobody, params: asking, query: url.Values{"challenge": {"<b>"}, "token": {askingToken}}})
		call(request{name: "of a provider that doesn't ask", caller: callerNobody, params: map[string]string{"provider": "payment"}, query: url.Values{"challenge": {"1"}, "token": {askingToken}}})
	},
	"resend-mail": func(t *testing.T, w *world, call func(request) outside.Answer) {
		call(request{name: "one on its way", caller: callerAdmin, params: w.makeMail(t, "mailed-"+w.next(), "test", "queued")})
		call(request{name: "a link that nobody can use", caller: callerAdmin, params: w.makeMail(t, "mailed-"+w.next(), "verify", "sent")})
	},
	"rotate-site-key": func(t *testing.T, w *world, call func(request) outside.Answer) {
		call(request{name: "a key rotated before", caller: callerAdmin, params: w.rotated(t)})
	},
	"get-webhook-event": func(t *testing.T, w *world, call func(request) outside.Answer) {
		id := map[string]string{"id": w.deliver(t, "other")}
		raw := url.Values{"raw": {"true"}}
		call(request{name: "the bytes", caller: callerAdmin, params: id, query: raw})
		w.forgetPayloads(t)
		call(request{name: "emptied", caller: callerAdmin, params: id})
		call(request{name: "the bytes, emptied", caller: callerAdmin, params: id, query: raw})
	},
	"replay-webhook-event": func(t *testing.T, w *world, call func(request) outside.Answer) {
		id := map[string]string{"id": w.deliver(t, "other")}
		call(request{name: "a processed event", caller: callerAdmin, params: id})
		call(request{name: "a processed event, by force", caller: callerAdmin, params: id, query: url.Values{"force": {"true"}}})
		w.forgetPayloads(t)
		call(request{name: "an emptied event", caller: callerAdmin, params: id, query: url.Values{"force": {"true"}}})
		externalID := "evt_" + w.next()
		held := map[string]string{"id": w.deliverAs(t, externalID, "hold")}
		running := w.startReplay(t, map[string]string{"external_id": externalID})
		w.waitPending(t, running, 1)
		call(request{name: "an event that is being handled", caller: callerAdmin, params: held})
		w.held.letThrough()
		w.waitPending(t, running, 0)
	},
	"cancel-webhook-replay": func(t *testing.T, w *world, call func(request) outside.Answer) {
		// As many as a replay takes at once, so that it can't end before these do.
		for range 16 {
			w.deliver(t, "hold")
		}
		running := map[string]string{"id": w.startReplay(t, map[string]string{"event_type": "hold"})}
		call(request{name: "a running replay", caller: callerAdmin, params: running})
		call(request{name: "a cancelled replay", caller: callerAdmin, params: running})
		w.held.letThrough()
		w.waitPending(t, running["id"], 0) // what is pending would be kept from being emptied
	},
	"create-api-token": func(t *testing.T, w *world, call func(request) outside.Answer) {
		p, body := w.newcomer(t), map[string]any{"name": "A bot", "scopes": []string{"read"}}
		for range 100 {
			w.must(t, "POST", "/api/auth/tokens", p.credentials, body)
		}
		call(request{name: "one too many", caller: aNewcomer, credentials: p.credentials, body: []byte(outside.JSON(body))})
		call(request{name: "without a recent sign-in", caller: aNewcomer, credentials: w.settled(t).credentials, body: []byte(outside.JSON(body))})
		call(request{name: "before the address is verified", caller: aNewcomer, credentials: w.registered(t), body: []byte(outside.JSON(body))})
	},
	"rotate-api-token":             rotateOwnToken,
	"rotate-service-account-token": rotateServiceToken,
	"create-service-account-token": createServiceToken,
	"erase-audit-entries": func(t *testing.T, w *world, call func(request) outside.Answer) {
		p := w.settledAdmin(t)
		body := outside.JSON(map[string]string{"table": "users", "row_id": "1"})
		call(request{name: "without a recent sign-in", caller: aNewcomer, credentials: p.credentials, body: []byte(body)})
		// Nobody but the one ADMIN: others see what becomes of the last.
		w.must(t, "DELETE", "/api/users/"+w.idOf(t, p.credentials)["id"], w.credentials[callerAdmin], nil)
		call(request{name: "nothing to erase", caller: callerAdmin, body: []byte(`{"table":"users","row_id":"nobody"}`)})
	},
	"list-blogs":           notSignedIn,
	"get-blog":             notSignedIn,
	"create-blog":          specialBlogs,
	"put-blog":             specialBlogs,
	"update-blog":          specialBlogs,
	"create-user":          takenAddress,
	"register-user":        takenAddress,
	"update-user":          specialUpdates,
	"put-user":             specialUpdates,
	"list-uploads":         specialLists,
	"create-upload":        specialUploads,
	"presign-upload":       specialPresigns,
	"complete-upload":      specialCompletes,
	"get-upload-content":   specialContents,
	"get-upload-thumbnail": specialContents,
	"retry-job": func(t *testing.T, w *world, call func(request) outside.Answer) {
		call(request{name: "a running job", caller: callerAdmin, params: w.makeJob(t, "running")})
	},
	"cancel-job": func(t *testing.T, w *world, call func(request) outside.Answer) {
		call(request{name: "a running job", caller: callerAdmin, params: w.makeJob(t, "running")})
	},
	"delete-job": func(t *testing.T, w *world, call func(request) outside.Answer) {
		call(request{name: "a running job", caller: callerAdmin, params: w.makeJob(t, "running")})
	},
	"delete-user": func(t *testing.T, w *world, call func(request) outside.Answer) {
		call(request{name: "the last ADMIN", caller: callerAdmin, params: w.idOf(t, w.credentials[callerAdmin])})
	},
	"refresh-session": func(t *testing.T, w *world, call func(request) outside.Answer) {
		p := w.newcomer(t)
		body := fmt.Appendf(nil, `{"refresh_token":%q}`, p.refresh)
		for _, name := range []string{"once", "twice", "three times"} {
			call(request{name: name, caller: callerNobody, body: body})
		}
		p = w.newcomer(t)
		w.must(t, "POST", "/api/auth/logout", p.credentials, nil)
		call(request{name: "after signing out", caller: callerNobody, body: fmt.Appendf(nil, `{"refresh_token":%q}`, p.refresh)})
		call(request{name: "no token of this service", caller: callerNobody, body: []byte(`{"refresh_token":"wprt_none"}`)})
	},
	"verify-email": func(t *testing.T, w *world, call func(request) outside.Answer) {
		call(request{name: "no code of a link", caller: callerNobody, body: tokenBody("wpml_none")})
		_, code := w.unverified(t)
		call(request{name: "without a password", caller: callerNobody, body: tokenBody(code)})
		call(request{name: "somebody else", caller: callerUser, body: tokenBody(code)})
		call(request{name: "a wrong password", caller: callerNobody, body: fmt.Appendf(nil, `{"token":%q,"password":"not the password"}`, code)})
		call(request{name: "no token", caller: aNewcomer, credentials: []string{"Authorization", "Basic YTpi"}, body: tokenBody(code)})
	},
	"change-email": func(t *testing.T, w *world, call func(request) outside.Answer) {
		call(request{name: "a taken address", caller: callerUser, body: fmt.Appendf(nil, `{"email":%q}`, w.people[callerEditor].email)})
		call(request{name: "without a recent sign-in", caller: aNewcomer, credentials: w.settled(t).credentials, body: []byte(`{"email":"wanted@example.com"}`)})
	},
	"confirm-email-change": func(t *testing.T, w *world, call func(request) outside.Answer) {
		email, code := w.asked(t, w.newcomer(t))
		w.newPerson(t, email, identity.User)
		call(request{name: "taken meanwhile", caller: callerNobody, body: tokenBody(code)})
		call(request{name: "no code of a link", caller: callerNobody, body: tokenBody("wpml_none")})
	},
	"undo-email-change": func(_ *testing.T, _ *world, call func(request) outside.Answer) {
		call(request{name: "no code of a link", caller: callerNobody, body: tokenBody("wpml_none")})
	},
	"change-password": func(_ *testing.T, _ *world, call func(request) outside.Answer) {
		body := fmt.Appendf(nil, `{"current_password":"not the password","new_password":%q}`, outside.Password)
		call(request{name: "a wrong password", caller: callerUser, body: body})
	},
	"reset-password": func(t *testing.T, w *world, call func(request) outside.Answer) {
		p := w.newcomer(t)
		w.must(t, "POST", "/api/auth/password/forgot", nil, map[string]string{"email": p.email})
		body := fmt.Appendf(nil, `{"token":%q,"password":%q}`, w.log.code(t, p.email, 1), outside.Password)
		call(request{name: "forgotten", caller: callerNobody, body: body})
		call(request{name: "with a spent link", caller: callerNobody, body: body})
	},
	"setup-two-factor": func(t *testing.T, w *world, call func(request) outside.Answer) {
		call(request{name: "on already", caller: aNewcomer, credentials: w.enrolled(t).credentials})
		call(request{name: "without a recent sign-in", caller: aNewcomer, credentials: w.settled(t).credentials})
		call(request{name: "before the address is verified", caller: aNewcomer, credentials: w.registered(t)})
	},
	"enable-two-factor": func(t *testing.T, w *world, call func(request) outside.Answer) {
		p := w.newcomer(t)
		call(request{name: "not set up", caller: aNewcomer, credentials: p.credentials, body: codeBody("123456")})
		w.setUp(t, p)
		call(request{name: "a wrong code", caller: aNewcomer, credentials: p.credentials, body: codeBody("no such code")})
		call(request{name: "the application's code", caller: aNewcomer, credentials: p.credentials, body: codeBody(p.code(t, 0))})
		call(request{name: "on already", caller: aNewcomer, credentials: p.credentials, body: codeBody(p.code(t, 1))})
		p = w.newcomer(t)
		w.setUp(t, p)
		path := "/api/users/" + w.idOf(t, p.credentials)["id"]
		w.must(t, "PATCH", path, w.credentials[callerAdmin], map[string]string{"email": "moved-" + w.next() + "@example.com"})
		call(request{name: "with another address meanwhile", caller: aNewcomer, credentials: p.credentials, body: codeBody(p.code(t, 0))})
	},
	"renew-recovery-codes": func(t *testing.T, w *world, call func(request) outside.Answer) {
		p := w.enrolled(t)
		call(request{name: "a wrong code", caller: aNewcomer, credentials: p.credentials, body: codeBody("no such code")})
		call(request{name: "the application's code", caller: aNewcomer, credentials: p.credentials, body: codeBody(p.code(t, 1))})
	},
	"disable-two-factor": func(t *testing.T, w *world, call func(request) outside.Answer) {
		p := w.enrolled(t)
		disable := func(name, password, code string) {
			body := outside.JSON(map[string]string{"password": password, "code": code})
			call(request{name: name, caller: aNewcomer, credentials: p.credentials, body: []byte(body)})
		}
		disable("a wrong password", "not the password", p.code(t, 1))
		disable("a wrong code", outside.Password, "no such code")
		disable("the application's code", outside.Password, p.code(t, 1))
		disable("off already", outside.Password, p.code(t, 1))
	},
	"verify-two-factor": func(t *testing.T, w *world, call func(request) outside.Answer) {
		p := w.enrolled(t)
		first := w.firstStep(t, p)
		call(request{name: "a wrong code", caller: callerNobody, body: secondStep(first, "no such code")})
		call(request{name: "the application's code", caller: callerNobody, body: secondStep(first, p.code(t, 1))})
		first = w.firstStep(t, p)
		w.deactivate(t, p.email)
		call(request{name: "deactivated", caller: callerNobody, body: secondStep(first, p.code(t, 1))})
	},
	"exchange-oauth-code": func(t *testing.T, w *world, call func(request) outside.Answer) {
		w.namesake()
		body := w.oauthCode(t, "github")
		call(request{name: "somebody's address", caller: callerNobody, body: body})
		w.stranger(w.google)
		w.google.Person.Verified = false
		call(request{name: "an address that is not verified", caller: callerNobody, body: w.oauthCode(t, "google")})
		w.stranger(w.google)
		w.google.Person.Email = ""
		call(request{name: "no address", caller: callerNobody, body: w.oauthCode(t, "google")})
		w.stranger(w.google)
		body = w.oauthCode(t, "google")
		call(request{name: "once", caller: callerNobody, body: body})
		call(request{name: "twice", caller: callerNobody, body: body})
		w.deactivate(t, w.google.Person.Email)
		call(request{name: "deactivated", caller: callerNobody, body: w.oauthCode(t, "google")})
	},
	"unlink-identity": func(t *testing.T, w *world, call func(request) outside.Answer) {
		var in struct {
			Data struct {
				AccessToken string `json:"access_token"`
			}
		}
		w.stranger(w.google)
		back := w.comeBack(t, "google", false)
		w.must(t, "GET", "/api/auth/oauth/google/callback?"+back.query.Encode(), back.header, nil).Into(t, &in)
		only := outside.Bearer(in.Data.AccessToken)
		var identities struct{ Data []struct{ ID json.Number } }
		w.must(t, "GET", "/api/auth/identities", only, nil).Into(t, &identities)
		call(request{name: "the last way in", caller: aNewcomer, credentials: only, params: map[string]string{"id": identities.Data[0].ID.String()}})
	},
	"link-identity": func(t *testing.T, w *world, call func(request) outside.Answer) {
		w.link(t, callerUser)
		body := w.oauthCode(t, "google")
		call(request{name: "without a recent sign-in", caller: aNewcomer, credentials: w.settled(t).credentials, body: body})
		call(request{name: "before the address is verified", caller: aNewcomer, credentials: w.registered(t), body: body})
		call(request{name: "somebody else's", caller: callerAdmin, body: body})
		call(request{name: "no code of a sign-in", caller: callerAdmin, body: []byte(outside.JSON(map[string]string{"code": "none", "code_verifier": clientVerifier}))})
	},
	"create-chat-completion":    specialChats,
	"create-embeddings":         specialEmbeddings,
	"list-ai-usage":             withUsage,
	"list-all-ai-usage":         withUsage,
	"start-oauth-login":         specialStart,
	"finish-oauth-login":        specialFinishes,
	"get-stats-events":          ofTwoRows(nil),
	"get-site-stats-events":     ofTwoNamedRows(nil),
	"get-stats-geo":             ofTwoRows(nil),
	"get-site-stats-geo":        ofTwoNamedRows(nil),
	"get-stats-pages":           ofTwoRows(nil),
	"get-site-stats-pages":      ofTwoNamedRows(nil),
	"get-stats-referrers":       ofTwoRows(nil),
	"get-site-stats-referrers":  ofTwoNamedRows(nil),
	"get-stats-summary":         ofTwoRows(nil),
	"get-site-stats-summary":    ofTwoNamedRows(nil),
	"get-stats-timeseries":      ofTwoRows(nil),
	"get-site-stats-timeseries": ofTwoNamedRows(nil),
	"get-stats-tech":            ofTwoRows(nil),
	"get-site-stats-tech":       ofTwoNamedRows(nil),
	"get-stats-report":          ofTwoRows(url.Values{"questions": {"tech"}}),
	"get-site-stats-report":     ofTwoNamedRows(url.Values{"questions": {"tech"}}),
}

// notSignedIn sends what is no token, where none will do.
func notSignedIn(t *testing.T, w *world, call func(request) outside.Answer) {
	call(request{name: "no token", caller: aNewcomer, credentials: []string{"Authorization", "Basic YTpi"}, params: w.makeBlog(t)})
}

func specialBlogs(t *testing.T, w *world, call func(request) outside.Answer) {
	slug := "taken-" + w.next()
	w.must(t, "POST", "/api/blogs", w.credentials[callerEditor], map[string]string{"title": "A blog", "content": "Text", "slug": slug})
	body := map[string]string{"title": "Another blog", "content": "Text", "slug": slug}
	call(request{name: "a taken slug", caller: callerEditor, params: w.makeBlog(t), body: []byte(outside.JSON(body))})
	body["content"] = strings.Repeat("x", 9<<20)
	call(request{name: "9 MB", caller: callerEditor, params: w.makeBlog(t), body: []byte(outside.JSON(body))})
}

func tokenBody(code string) []byte { return []byte(outside.JSON(map[string]string{"token": code})) }

func codeBody(code string) []byte { return []byte(outside.JSON(map[string]string{"code": code})) }

// takenAddress makes an account under an address that has one.
func takenAddress(_ *testing.T, w *world, call func(request) outside.Answer) {
	body := map[string]string{"first_name": "New", "last_name": "User", "email": w.people[callerUser].email}
	call(request{name: "a taken address", caller: callerAdmin, body: []byte(outside.JSON(body))})
	body = maps.Clone(body)
	body["password"] = outside.Password
	call(request{name: "a taken address, with a password", caller: callerAdmin, body: []byte(outside.JSON(body))})
}

func specialUpdates(t *testing.T, w *world, call func(request) outside.Answer) {
	_, made := w.makeUser(t)
	call(request{name: "a taken address", caller: callerAdmin, params: made, body: fmt.Appendf(nil, `{"email":%q}`, w.people[callerUser].email)})
	call(request{name: "the last ADMIN", caller: callerAdmin, params: w.idOf(t, w.credentials[callerAdmin]), body: []byte(`{"role":"USER"}`)})
	p := w.settled(t)
	call(request{name: "another address without a recent sign-in", caller: aNewcomer, credentials: p.credentials,
		params: w.idOf(t, p.credentials), body: fmt.Appendf(nil, `{"email":"moved-%s@example.com"}`, w.next())})
	call(request{name: "one's own role", caller: callerUser, params: w.idOf(t, w.credentials[callerUser]), body: []byte(`{"role":"ADMIN"}`)})
}

// idOf is whose account those are, as a path's parameter.
func (w *world) idOf(t *testing.T, credentials []string) map[string]string {
	t.Helper()
	var me struct{ Data struct{ ID json.Number } }
	w.must(t, "GET", "/api/auth/me", credentials, nil).Into(t, &me)
	return map[string]string{"id": me.Data.ID.String()}
}
