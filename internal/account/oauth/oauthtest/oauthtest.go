// Package oauthtest has two small identity providers for tests: one that speaks
// OpenID Connect and one that speaks as GitHub does. Both are strict where a
// client can err: client, redirect URI, code used once, PKCE.
package oauthtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc/oidctest"

	"github.com/waypost/waypost/internal/account/oauth"
)

// The client that both providers know.
const (
	ClientID     = "waypost-test"
	ClientSecret = "pl4nted client secret"
)

// Person is who agrees to sign in.
type Person struct {
	// Subject is numeric, as GitHub's are.
	Subject  int64
	Email    string
	Verified bool
	Name     string
}

// Server is a provider. Its fields may be changed between sign-ins.
type Server struct {
	*httptest.Server
	// Person signs in next; Deny makes them decline.
	Person Person
	Deny   bool
	// Claims changes the ID token before it is signed; Issuer is the iss of the
	// authorization response, "" for none.
	Claims func(map[string]any)
	Issuer string
	// UserInfo keeps the address out of the ID token.
	UserInfo bool
	// Down answers the token endpoint with 500.
	Down bool

	now    func() time.Time
	key    *ecdsa.PrivateKey
	mu     sync.Mutex
	grants map[string]grant
	tokens map[string]Person
}

type grant struct {
	challenge, redirect, nonce string
	person                     Person
}

func newServer(t testing.TB, now func() time.Time) (*Server, *http.ServeMux) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{now: now, key: key, grants: map[string]grant{}, tokens: map[string]Person{}}
	mux := http.NewServeMux()
	s.Server = httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s, mux
}

// NewOpenID starts an OpenID provider that promises an iss in its answers.
func NewOpenID(t testing.TB, now func() time.Time) *Server {
	t.Helper()
	s, mux := newServer(t, now)
	s.Issuer = s.URL
	mux.HandleFunc("GET /authorize", s.authorize)
	mux.HandleFunc("POST /token", s.token)
	mux.HandleFunc("GET /userinfo", func(w http.ResponseWriter, r *http.Request) {
		p, ok := s.bearer(r)
		if !ok {
			http.Error(w, "who?", http.StatusUnauthorized)
			return
		}
		answer(w, map[string]any{"sub": strconv.FormatInt(p.Subject, 10), "email": p.Email, "email_verified": p.Verified, "name": p.Name})
	})
	known := &oidctest.Server{PublicKeys: []oidctest.PublicKey{{PublicKey: s.key.Public(), KeyID: "k1", Algorithm: "ES256"}}}
	known.SetIssuer(s.URL)
	mux.Handle("GET /keys", known)
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string]any{
			"issuer": s.URL, "authorization_endpoint": s.URL + "/authorize", "token_endpoint": s.URL + "/token",
			"jwks_uri": s.URL + "/keys", "userinfo_endpoint": s.URL + "/userinfo",
			"id_token_signing_alg_values_supported":          []string{"ES256"},
			"authorization_response_iss_parameter_supported": true,
		})
	})
	return s
}

// NewGitHub starts a provider that has GitHub's paths, site and API on one host.
func NewGitHub(t testing.TB) *Server {
	t.Helper()
	s, mux := newServer(t, time.Now)
	mux.HandleFunc("GET /login/oauth/authorize", s.authorize)
	mux.HandleFunc("POST /login/oauth/access_token", s.token)
	mux.HandleFunc("GET /user", func(w http.ResponseWriter, r *http.Request) {
		p, ok := s.bearer(r)
		if !ok {
			http.Error(w, "who?", http.StatusUnauthorized)
			return
		}
		// The public profile's address says nothing of its verification.
		answer(w, map[string]any{"id": p.Subject, "login": "octocat", "name": p.Name, "email": "profile@example.com"})
	})
	mux.HandleFunc("GET /user/emails", func(w http.ResponseWriter, r *http.Request) {
		p, ok := s.bearer(r)
		if !ok {
			http.Error(w, "who?", http.StatusUnauthorized)
			return
		}
		answer(w, []map[string]any{
			{"email": "old@example.com", "primary": false, "verified": true},
			{"email": p.Email, "primary": true, "verified": p.Verified},
		})
	})
	return s
}

// Options are how to reach the provider.
func (s *Server) Options(redirectURL string) oauth.Options {
	return oauth.Options{
		ClientID: ClientID, ClientSecret: ClientSecret, RedirectURL: redirectURL,
		URL: s.URL, APIURL: s.URL, Now: s.now,
	}
}

// authorize agrees, or declines, at once.
func (s *Server) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	back, err := url.Parse(q.Get("redirect_uri"))
	if err != nil || q.Get("client_id") != ClientID || q.Get("response_type") != "code" ||
		q.Get("code_challenge_method") != "S256" || len(q.Get("code_challenge")) != 43 || q.Get("state") == "" {
		http.Error(w, "not an authorization request with PKCE: "+r.URL.RawQuery, http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	out := url.Values{"state": {q.Get("state")}}
	if s.Issuer != "" {
		out.Set("iss", s.Issuer)
	}
	if s.Deny {
		out.Set("error", "access_denied")
	} else {
		code := rand.Text()
		s.grants[code] = grant{challenge: q.Get("code_challenge"), redirect: q.Get("redirect_uri"), nonce: q.Get("nonce"), person: s.Person}
		out.Set("code", code)
	}
	back.RawQuery = out.Encode()
	http.Redirect(w, r, back.String(), http.StatusFound)
}

func (s *Server) token(w http.ResponseWriter, r *http.Request) {
	id, secret, basic := r.BasicAuth()
	if !basic {
		id, secret = r.PostFormValue("client_id"), r.PostFormValue("client_secret")
	} else if u, err := url.QueryUnescape(secret); err == nil {
		secret = u // RFC 6749 section 2.3.1
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	g, known := s.grants[r.PostFormValue("code")]
	delete(s.grants, r.PostFormValue("code"))
	digest := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	switch {
	case s.Down:
		http.Error(w, "pl4nted trouble", http.StatusInternalServerError)
		return
	case id != ClientID || secret != ClientSecret:
		refuse(w, "invalid_client")
		return
	case !known || g.redirect != r.PostFormValue("redirect_uri") || g.challenge != base64.RawURLEncoding.EncodeToString(digest[:]):
		refuse(w, "invalid_grant")
		return
	}
	token := "pl4nted-access-" + rand.Text()
	s.tokens[token] = g.person
	now := s.now()
	claims := map[string]any{
		"iss": s.URL, "aud": ClientID, "sub": strconv.FormatInt(g.person.Subject, 10), "nonce": g.nonce,
		"iat": now.Unix(), "exp": now.Add(time.Hour).Unix(), "name": g.person.Name,
	}
	if !s.UserInfo {
		claims["email"], claims["email_verified"] = g.person.Email, g.person.Verified
	}
	if s.Claims != nil {
		s.Claims(claims)
	}
	body, err := json.Marshal(claims)
	if err != nil {
		panic(err)
	}
	answer(w, map[string]any{
		"access_token": token, "token_type": "Bearer", "expires_in": 3600,
		"id_token": oidctest.SignIDToken(s.key, "k1", "ES256", string(body)),
	})
}

func (s *Server) bearer(r *http.Request) (Person, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, ok := s.tokens[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]
	return p, ok
}

// refuse answers as GitHub does, with 200, which a client must not take for success.
func refuse(w http.ResponseWriter, code string) {
	answer(w, map[string]any{"error": code, "error_description": "pl4nted description"})
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(v); err != nil {
		panic(err)
	}
}

// Challenge is S256 of RFC 7636 section 4.2.
func Challenge(verifier string) string {
	sum := sha256.Sum256([]byte(verifier))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}
