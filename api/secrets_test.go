package api_test

import (
	"encoding/base32"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/pquerna/otp/totp"

	"github.com/waypost/waypost/internal/account"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/mail"
)

// run is a life of an account over HTTP that gathers every secret that comes up
// and every answer.
type run struct {
	people
	t       *testing.T
	secrets map[string]string // by what it is
	answers []string
}

func (r *run) do(method, path, body string, changes ...func(*http.Request)) map[string]any {
	r.t.Helper()
	a := r.people.send(r.t, method, path, body, changes...)
	r.answers = append(r.answers, a.text)
	if a.status >= 500 {
		r.t.Fatalf("%s %s: %d %s", method, path, a.status, a.text)
	}
	if !strings.HasPrefix(string(a.body.Data), "{") { // a list, or an error
		return nil
	}
	return a.data(r.t)
}

// keep remembers a secret that an answer gave.
func (r *run) keep(what string, from map[string]any, member string) string {
	r.t.Helper()
	secret, _ := from[member].(string)
	if secret == "" {
		r.t.Fatalf("no %s in %v", member, from)
	}
	r.secrets[what] = secret
	return secret
}

// Abuse case 36: every table, every log line and every answer of a full run is
// searched for every secret of it. An answer that gives a secret is the only one
// that holds it.
func TestCase36NoSecretIsFoundWhereItDoesNotBelong(t *testing.T) {
	t.Parallel()
	r := &run{people: newPeople(t), t: t, secrets: map[string]string{
		"password": password, "wrong password": "a wr0ng battery staple", "next password": "an0ther battery staple", "last password": "the l4st battery staple",
	}}
	r.live()
	mailed := map[string]int{}
	for what, secret := range r.secrets {
		allowed := 1
		if strings.Contains(what, "password") {
			allowed = 0 // given by the client, told by nobody
		}
		for _, m := range r.mail.Sent("") {
			if m.Code == secret {
				mailed[what]++
				allowed = 0
			}
		}
		shown := 0
		for _, a := range r.answers {
			if strings.Contains(a, secret) {
				shown++
			}
		}
		if shown > allowed {
			t.Errorf("%s shows in %d answers, want %d", what, shown, allowed)
		}
		if strings.Contains(r.log.String(), secret) {
			t.Errorf("%s is in the log", what)
		}
	}
	if len(mailed) != 5 || len(r.secrets) < 14 {
		t.Errorf("the run was not a full one: %d mailed secrets of %d", len(mailed), len(r.secrets))
	}
	if !strings.Contains(r.log.String(), `"path":"/api/auth/login"`) {
		t.Error("nothing was logged")
	}
	r.searchTables()
}

// moveBob changes an address, and takes it back.
func (r *run) moveBob() {
	bob := r.add(r.t, "bob@example.com", identity.User)
	r.do("POST", "/api/auth/email/change", `{"email":"bob@example.org"}`, bob)
	r.work(r.t)
	r.secrets["confirmation"] = r.code(r.t, "bob@example.org", mail.ConfirmEmail)
	r.do("POST", "/api/auth/email/confirm", object(map[string]any{"token": r.secrets["confirmation"]}))
	r.secrets["undo"] = r.code(r.t, "bob@example.com", mail.UndoEmail)
	r.do("POST", "/api/auth/email/undo", object(map[string]any{"token": r.secrets["undo"]}))
}

func (r *run) live() {
	r.do("POST", "/api/auth/register", registration("ada@example.com"))
	r.secrets["verification"] = r.code(r.t, "ada@example.com", mail.VerifyEmail)
	r.do("POST", "/api/auth/verify-email", object(map[string]any{"token": r.secrets["verification"], "password": password}))
	r.do("POST", "/api/auth/login", login("ada@example.com", r.secrets["wrong password"]))
	r.do("POST", "/api/auth/login", login(r.secrets["wrong password"]+"@example.com", password))
	first := r.do("POST", "/api/auth/login", login("ada@example.com", password))
	r.keep("first access token", first, "access_token")
	second := r.do("POST", "/api/auth/refresh", refreshing(r.keep("first refresh token", first, "refresh_token")))
	ada := bearer(r.keep("second access token", second, "access_token"))
	r.keep("second refresh token", second, "refresh_token")
	made := r.do("POST", "/api/auth/tokens", `{"name":"bot","scopes":["read"]}`, ada)
	bot := bearer(r.keep("API token", made, "token"))
	r.do("GET", "/api/posts", "", bot)
	r.do("GET", "/api/posts?access_token="+r.secrets["API token"], "")
	r.do("POST", "/api/posts", object(map[string]any{"title": 1, "password": r.secrets["wrong password"]}), ada)
	r.do("POST", "/api/auth/password/change", object(map[string]any{"current_password": password, "new_password": r.secrets["next password"]}), ada)

	setup := r.do("POST", "/api/auth/2fa/setup", "", ada)
	secret := r.keep("two-factor secret", setup, "secret")
	raw, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(secret)
	if err != nil {
		r.t.Fatal(err)
	}
	r.secrets["two-factor secret in bytes"] = string(raw)
	code, err := totp.GenerateCode(secret, time.Now())
	if err != nil {
		r.t.Fatal(err)
	}
	enabled := r.do("POST", "/api/auth/2fa/enable", object(map[string]any{"code": code}), ada)
	codes, _ := enabled["recovery_codes"].([]any)
	for _, c := range codes {
		r.secrets["recovery code "+c.(string)] = c.(string)
	}
	challenge := r.do("POST", "/api/auth/login", login("ada@example.com", r.secrets["next password"]))
	r.keep("challenge", challenge, "mfa_token")
	r.do("POST", "/api/auth/2fa/verify", object(map[string]any{"mfa_token": r.secrets["challenge"], "code": "000000"}))
	third := r.do("POST", "/api/auth/2fa/verify", object(map[string]any{"mfa_token": r.secrets["challenge"], "code": codes[0]}))
	r.keep("third refresh token", third, "refresh_token")

	r.do("POST", "/api/auth/password/forgot", `{"email":"ada@example.com"}`)
	r.work(r.t)
	r.secrets["reset"] = r.code(r.t, "ada@example.com", mail.ResetPassword)
	if status := r.page(r.t, "GET", account.ResetPasswordPath+"?token="+r.secrets["reset"]); status != 200 {
		r.t.Errorf("the mailed link leads to %d", status)
	}
	r.do("POST", "/api/auth/password/reset", object(map[string]any{"token": r.secrets["reset"], "password": r.secrets["last password"]}))
	root := r.add(r.t, "root@example.com", identity.Admin)
	r.do("POST", "/api/users", `{"first_name":"Grace","last_name":"Hopper","email":"grace@example.com"}`, root)
	r.secrets["invitation"] = r.code(r.t, "grace@example.com", mail.SetPassword)
	made = r.do("POST", "/api/admin/service-accounts", `{"name":"bot"}`, root)
	tokens := fmt.Sprintf("/api/admin/service-accounts/%.0f/tokens", made["id"])
	made = r.do("POST", tokens, `{"name":"bot","scopes":["read"],"rate":60}`, root)
	r.keep("service account's API token", made, "token")
	r.keep("rotated API token", r.do("POST", fmt.Sprintf("%s/%.0f/rotate", tokens, made["id"]), "", root), "token")
	r.do("GET", "/api/posts", "", bearer(r.secrets["service account's API token"]))
	r.moveBob()
	for _, path := range []string{tokens, "/api/admin/service-accounts", "/api/users?q=ada", "/api/posts", "/api/auth/tokens", "/api/auth/sessions", "/api/auth/me"} {
		r.people.do(r.t, "GET", path, "", root)
	}
}

// searchTables looks into every column of every row, as text and as bytes.
func (r *run) searchTables() {
	r.t.Helper()
	ctx := r.t.Context()
	rows, err := r.owner(r.t).Query(ctx, `select tablename from pg_tables where schemaname = 'public'`)
	if err != nil {
		r.t.Fatal(err)
	}
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		r.t.Fatal(err)
	}
	if !slices.Contains(tables, "users") || !slices.Contains(tables, "refresh_tokens") {
		r.t.Fatalf("tables %v", tables)
	}
	conn := r.owner(r.t)
	for _, table := range tables {
		rows, err := conn.Query(ctx, `select t::text from `+pgx.Identifier{table}.Sanitize()+` t`)
		if err != nil {
			r.t.Fatal(err)
		}
		texts, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			r.t.Fatal(err)
		}
		all := strings.Join(texts, "\n")
		for what, secret := range r.secrets {
			if strings.Contains(all, secret) || strings.Contains(all, hex.EncodeToString([]byte(secret))) {
				r.t.Errorf("%s is in the table %s", what, table)
			}
		}
	}
}
