package truth_test

import (
	"encoding/json"
	"maps"
	"testing"

	"github.com/waypost/waypost/e2e/outside"
)

type madeToken struct{ ID, Token string }

// makeToken makes an API token of a caller.
func (w *world) makeToken(t *testing.T, caller string, scopes []string) madeToken {
	t.Helper()
	return w.makeTokenAs(t, w.credentials[caller], "/api/auth/tokens", map[string]any{"scopes": scopes})
}

// makeTokenOf makes an API token of an ADMIN or of a service account, with more members
// in the body.
func (w *world) makeTokenOf(t *testing.T, path string, more map[string]any) madeToken {
	t.Helper()
	return w.makeTokenAs(t, w.credentials[callerAdmin], path, more)
}

func (w *world) makeTokenAs(t *testing.T, credentials []string, path string, more map[string]any) madeToken {
	t.Helper()
	body := map[string]any{"name": "A bot", "scopes": []string{"read", "write", "admin"}}
	maps.Copy(body, more)
	var made struct {
		Data struct {
			ID    json.Number
			Token string
		}
	}
	w.must(t, "POST", path, credentials, body).Into(t, &made)
	return madeToken{made.Data.ID.String(), made.Data.Token}
}

// makeServiceAccount makes a service account with a token, to be changed and deleted.
func (w *world) makeServiceAccount(t *testing.T) map[string]string {
	t.Helper()
	var made struct{ Data struct{ ID json.Number } }
	w.must(t, "POST", "/api/admin/service-accounts", w.credentials[callerAdmin], map[string]string{"name": "Bot " + w.next(), "role": "ADMIN"}).Into(t, &made)
	id := made.Data.ID.String()
	token := w.makeTokenOf(t, "/api/admin/service-accounts/"+id+"/tokens", map[string]any{})
	return map[string]string{"id": id, "tid": token.ID}
}

// makeBoundTokens makes tokens that may be used from nowhere and no more, and one of a
// service account.
func (w *world) makeBoundTokens(t *testing.T) {
	t.Helper()
	w.credentials[callerAwayToken] = outside.Bearer(w.makeTokenOf(t, "/api/auth/tokens", map[string]any{"allowed_networks": []string{"192.0.2.0/24"}}).Token)
	busy := w.makeTokenOf(t, "/api/auth/tokens", map[string]any{"rate": 1})
	w.credentials[callerBusyToken] = outside.Bearer(busy.Token)
	w.must(t, "GET", "/api/auth/me", outside.Bearer(busy.Token), nil)
	w.behind(t, "update throttles set forget_at = forget_at + interval '1 day' where name = 'token.rate' and subject = $1", busy.ID)
	account := w.makeServiceAccount(t)["id"]
	w.credentials[callerService] = outside.Bearer(w.makeTokenOf(t, "/api/admin/service-accounts/"+account+"/tokens", map[string]any{}).Token)
}

// anyToken is of a life that begins now, whenever that is.
func anyToken(_ *testing.T, _ *world, r *request) {
	r.body = []byte(`{"name":"A bot","scopes":["read"],"allowed_networks":["203.0.113.7"],"rate":600}`)
}

func rotateOwnToken(t *testing.T, w *world, call func(request) outside.Answer) {
	p := w.newcomer(t)
	token := w.makeTokenAs(t, p.credentials, "/api/auth/tokens", map[string]any{"scopes": []string{"read"}})
	rotations(t, w, call, "/api/auth/tokens", p.credentials, map[string]string{"id": token.ID})
	call(request{name: "without a recent sign-in", caller: aNewcomer, credentials: w.settled(t).credentials, params: map[string]string{"id": "1"}})
	call(request{name: "before the address is verified", caller: aNewcomer, credentials: w.registered(t), params: map[string]string{"id": "1"}})
}

func rotateServiceToken(t *testing.T, w *world, call func(request) outside.Answer) {
	ids := w.makeServiceAccount(t)
	rotations(t, w, call, "/api/admin/service-accounts/"+ids["id"]+"/tokens", w.credentials[callerAdmin], ids)
	call(request{name: "no such token", caller: callerAdmin, params: map[string]string{"id": ids["id"], "tid": "987654321"}})
	w.asSettledAdmin(t, func(credentials []string) {
		call(request{name: "without a recent sign-in", caller: aNewcomer, credentials: credentials, params: ids})
	})
}

func createServiceToken(t *testing.T, w *world, call func(request) outside.Answer) {
	ids, body := w.makeServiceAccount(t), []byte(`{"name":"A bot","scopes":["read"]}`)
	for range 99 {
		w.makeTokenOf(t, "/api/admin/service-accounts/"+ids["id"]+"/tokens", map[string]any{})
	}
	call(request{name: "one too many", caller: callerAdmin, params: ids, body: body})
	call(request{name: "no such account", caller: callerAdmin, params: map[string]string{"id": "987654321"}, body: body})
	w.asSettledAdmin(t, func(credentials []string) {
		call(request{name: "without a recent sign-in", caller: aNewcomer, credentials: credentials, params: ids, body: body})
	})
}

// rotations rotates a token twice, and the last of a hundred.
func rotations(t *testing.T, w *world, call func(request) outside.Answer, path string, credentials []string, ids map[string]string) {
	t.Helper()
	call(request{name: "once", caller: aNewcomer, credentials: credentials, params: ids})
	call(request{name: "twice", caller: aNewcomer, credentials: credentials, params: ids})
	last := maps.Clone(ids)
	for range 98 {
		token := w.makeTokenAs(t, credentials, path, map[string]any{"scopes": []string{"read"}})
		if _, of := ids["tid"]; of {
			last["tid"] = token.ID
		} else {
			last["id"] = token.ID
		}
	}
	call(request{name: "one of a hundred", caller: aNewcomer, credentials: credentials, params: last})
}

// asSettledAdmin does something as an ADMIN who signed in a while ago, and goes: others
// see what becomes of the last ADMIN.
func (w *world) asSettledAdmin(t *testing.T, do func(credentials []string)) {
	t.Helper()
	p := w.settledAdmin(t)
	do(p.credentials)
	w.must(t, "DELETE", "/api/users/"+w.idOf(t, p.credentials)["id"], w.credentials[callerAdmin], nil)
}
