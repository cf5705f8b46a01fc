package truth_test

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/waypost/waypost/e2e/outside"
)

// The kinds of caller, by name.
const (
	callerNobody      = "nobody"
	callerForger      = "a forger"
	callerTokenForger = "a forger of API tokens"
	callerUser        = "USER"
	callerEditor      = "EDITOR"
	callerAdmin       = "ADMIN"
	callerToken       = "an API token"
	callerWeakToken   = "an API token without the scope"
	callerPlainToken  = "an API token without the scope admin"
	callerLateToken   = "an expired API token"
	callerAwayToken   = "an API token from another network than its own"
	callerBusyToken   = "an API token beyond its rate"
	callerService     = "a service account"
	callerEnded       = "an ended session"
	callerMustEnroll  = "an ADMIN without the second factor that is required"
	callerReader      = "a reading key"
	callerFeeder      = "an ingesting key"
)

// kind is what a caller brings along, in the description's own words.
type kind struct {
	scheme string // "" for nothing that holds
	role   string
	token  bool // an API token
	scopes []string
	// bad credentials are none, and must not be sent at all.
	bad bool
	// enrolls may do little before it has set up two-factor authentication.
	enrolls bool
	// code is what it gets wherever its credentials count; "" for what its role says.
	code string
}

var kinds = map[string]kind{
	callerNobody:      {},
	callerForger:      {bad: true},
	callerTokenForger: {bad: true},
	callerUser:        {scheme: "bearer", role: "USER"},
	callerEditor:      {scheme: "bearer", role: "EDITOR"},
	callerAdmin:       {scheme: "bearer", role: "ADMIN"},
	callerToken:       {scheme: "apiToken", role: "ADMIN", token: true, scopes: []string{"read", "write", "admin"}},
	callerWeakToken:   {scheme: "apiToken", role: "ADMIN", token: true, scopes: []string{"ai"}},
	callerPlainToken:  {scheme: "apiToken", role: "ADMIN", token: true, scopes: []string{"read", "write"}},
	callerLateToken:   {bad: true},
	callerAwayToken:   {code: "network_not_allowed"},
	callerBusyToken:   {code: "rate_limited"},
	callerService:     {scheme: "apiToken", role: "ADMIN", token: true, scopes: []string{"read", "write", "admin"}},
	callerEnded:       {bad: true},
	callerMustEnroll:  {scheme: "bearer", role: "ADMIN", enrolls: true},
	callerReader:      {scheme: "siteKey", scopes: []string{"read"}},
	callerFeeder:      {scheme: "siteKey", scopes: []string{"ingest"}},
}

// whoMay are callers whom the operation's security lets in, as far as what they
// ask: people, and API tokens wherever they are.
func (w *world) whoMay(o *operation) []string {
	switch schemes := o.schemes(); {
	case slices.Contains(schemes, "bearer"):
		return []string{callerAdmin, callerToken}
	case slices.Contains(schemes, "siteKey") && o.admits(kinds[callerFeeder]):
		return []string{callerFeeder}
	case slices.Contains(schemes, "siteKey"):
		return []string{callerReader}
	}
	return []string{callerNobody}
}

// schemes are those of the documented security, each of which is enough.
func (o *operation) schemes() []string {
	var list []string
	for _, alternative := range o.doc.Security {
		for scheme := range alternative {
			list = append(list, scheme)
		}
	}
	return list
}

// optional reports whether no credential will do as well.
func (o *operation) optional() bool {
	return slices.ContainsFunc(o.doc.Security, func(alternative map[string][]string) bool { return len(alternative) == 0 })
}

// access is the sentence that says for people who may call.
func (o *operation) access() string {
	_, text, _ := strings.Cut(o.doc.Description, "Access: ")
	text, _, _ = strings.Cut(text, "\n")
	return text
}

var quoted = regexp.MustCompile("`([^`]+)`")

func quotedIn(text string) []string {
	var list []string
	for _, match := range quoted.FindAllStringSubmatch(text, -1) {
		list = append(list, match[1])
	}
	return list
}

// admits reads from the text whether such a caller may, once its scheme is right.
// Calls are about others' accounts, so it counts what tokens need for those, too.
func (o *operation) admits(k kind) bool {
	who, tokens, _ := strings.Cut(o.access(), ";")
	if k.scheme == "siteKey" {
		who, tokens = "", who
	}
	if named := quotedIn(who); len(named) > 0 && !slices.Contains(named, k.role) {
		return false
	}
	if k.token && strings.Contains(tokens, "not with an API token") {
		return false
	}
	if !k.token && k.scheme != "siteKey" {
		return true
	}
	needed := quotedIn(tokens)
	return len(needed) > 0 && !slices.ContainsFunc(needed, func(scope string) bool { return !slices.Contains(k.scopes, scope) })
}

const enrollFirst = "two_factor_required"

// unknownCaller are the codes of a 401 that is for what the caller brought, not
// for what the request asks.
var unknownCaller = []string{"unauthenticated", "token_invalid", "token_expired", "session_revoked", "invalid_api_key"}

// openAINames are what codes are called for OpenAI's clients.
var openAINames = map[string]string{"rate_limited": "rate_limit_exceeded"}

// checkAccess holds the answer to a valid call against the security that is
// documented, and against what its text says of roles, tokens and scopes.
func (o *operation) checkAccess(caller string, a outside.Answer) []string {
	k, schemes, code := kinds[caller], o.schemes(), a.ErrorCode()
	unknown := a.Status == http.StatusUnauthorized && slices.Contains(unknownCaller, code)
	refused := a.Status == http.StatusForbidden && (code == "forbidden" || code == "insufficient_scope")
	switch {
	case k.code != "" && slices.Contains(schemes, "bearer"):
		want := k.code
		if name := openAINames[want]; name != "" && strings.HasPrefix(o.path, "/api/ai/v1/") {
			want = name
		}
		if code != want {
			return []string{fmt.Sprintf("the answer is %d %q, want %s", a.Status, code, want)}
		}
	case len(schemes) == 0:
		if refused || unknown && (code == "unauthenticated" || code == "invalid_api_key") {
			return []string{fmt.Sprintf("no security is documented, and the answer is %d %s", a.Status, code)}
		}
	case slices.Contains(schemes, "paymentSignature"): // callers don't sign, requests are signed
	case o.optional() && !slices.Contains(schemes, k.scheme):
		if unknown != k.bad || refused {
			return []string{fmt.Sprintf("no security will do as well, and the answer is %d %s", a.Status, code)}
		}
	case !slices.Contains(schemes, k.scheme):
		if known := k.token && refused; !unknown && !known {
			return []string{fmt.Sprintf("documented is %v, and who has none gets %d", schemes, a.Status)}
		}
	case unknown:
		return []string{fmt.Sprintf("documented is %v, and who has it gets %s", schemes, code)}
	case k.enrolls:
		_, documented := o.doc.Responses["403"].Content["application/json"].examples()[enrollFirst]
		if refusedNow := code == enrollFirst; refusedNow != documented {
			return []string{fmt.Sprintf("%s is documented: %v, and the answer is %d %s", enrollFirst, documented, a.Status, code)}
		}
	case o.admits(k) == refused:
		return []string{fmt.Sprintf("the text says %q, and the answer is %d %s", o.access(), a.Status, code)}
	}
	return nil
}

// checkKept holds the answer to a call against who may keep it: what somebody got who had
// to say who it is, and what comes of a change, is for no cache that others use (RFC 9111,
// section 5.2.2).
func (o *operation) checkKept(w *world, r request, a outside.Answer) []string {
	credentials := r.credentials
	if credentials == nil {
		credentials = w.credentials[r.caller]
	}
	sent := slices.Contains(credentials, "Authorization")
	everybodys := o.method == http.MethodGet && (len(o.schemes()) == 0 || o.optional() && !sent)
	kept := a.Header.Get("Cache-Control")
	if everybodys || a.Status == http.StatusNotModified || strings.Contains(kept, "no-store") || strings.HasPrefix(kept, "private") {
		return nil
	}
	return []string{fmt.Sprintf("status %d: others may keep the answer: Cache-Control is %q", a.Status, kept)}
}
