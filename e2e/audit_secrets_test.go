package e2e_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pquerna/otp/totp"

	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/e2e/auditproof"
	"github.com/waypost/waypost/e2e/outside"
)

// planted are secrets by what they are.
type planted map[string]string

// leaked are the forms in which a secret would be found: as it is, in hex, in base64,
// percent-encoded, and what a database stores of it.
func leaked(secret string) map[string]string {
	digest := sha256.Sum256([]byte(secret))
	forms := map[string]string{
		"plain": secret, "in hex": hex.EncodeToString([]byte(secret)), "percent-encoded": url.QueryEscape(secret),
		"as SHA-256": hex.EncodeToString(digest[:]), "as SHA-256 in base64": base64.StdEncoding.EncodeToString(digest[:]),
	}
	for shift := range 3 { // where it begins in a group of three bytes
		for name, encoding := range map[string]*base64.Encoding{"base64": base64.RawStdEncoding, "base64url": base64.RawURLEncoding} {
			text := encoding.EncodeToString([]byte(strings.Repeat("x", shift) + secret))
			from := (shift*8 + 5) / 6 // the first character of nothing but the secret
			forms[fmt.Sprintf("in %s, shifted by %d", name, shift)] = text[from : len(text)-1]
		}
	}
	return forms
}

// traces are what a log has of secrets.
func (p planted) traces(export []byte) []string {
	// The values of changes are JSON in JSON: they are looked through as they were, too.
	text := bytes.NewBuffer(bytes.Clone(export))
	for line := range bytes.Lines(export) {
		var e auditproof.Entry
		if err := json.Unmarshal(line, &e); err != nil || e.Changes == nil {
			continue
		}
		var changes any
		d := json.NewDecoder(strings.NewReader(*e.Changes))
		d.UseNumber()
		if err := d.Decode(&changes); err == nil {
			fmt.Fprintln(text, changes)
		}
	}
	all := strings.ToLower(text.String())
	var found []string
	for what, secret := range p {
		for form, value := range leaked(secret) {
			if strings.Contains(all, strings.ToLower(value)) {
				found = append(found, what+", "+form)
			}
		}
	}
	return found
}

// careless is somebody who gives the service secrets of all kinds, and notes them.
type careless struct {
	p       *process
	secrets planted
	token   string
}

// call sends a request, which must end in that status.
func (c *careless) call(t *testing.T, status int, method, path string, body any, header ...string) outside.Answer {
	t.Helper()
	if c.token != "" {
		header = append(header, "Authorization", "Bearer "+c.token)
	}
	a := outside.Do(t, method, c.p.url+path, outside.JSON(body), append(header, "Content-Type", "application/json")...)
	if a.Status != status {
		t.Fatalf("%s %s: %d %s, want %d", method, path, a.Status, a.Body, status)
	}
	return a
}

// keep notes secrets that an answer has, by their members.
func (c *careless) keep(t *testing.T, what string, a outside.Answer, members ...string) map[string]any {
	t.Helper()
	var in struct{ Data map[string]any }
	a.Into(t, &in)
	for _, m := range members {
		secret, _ := in.Data[m].(string)
		if len(secret) < 8 {
			t.Fatalf("%s has no %s: %s", what, m, a.Body)
		}
		c.secrets[what+": "+m] = secret
	}
	return in.Data
}

// plant makes up a secret.
func (c *careless) plant(what string) string {
	c.secrets[what] = fmt.Sprintf("Planted%dSecret%x", len(c.secrets), sha256.Sum256([]byte(what)))[:40]
	return c.secrets[what]
}

// mailed is the code of the next mailed link of that kind.
func (c *careless) mailed(t *testing.T, kind, to string) string {
	t.Helper()
	link, before := "", c.secrets["the code of the mail "+kind]
	c.p.waitFor(t, "another mail of kind "+kind, func() bool {
		link = c.p.awaitLink(t, kind, to)
		return before == "" || !strings.HasSuffix(link, before)
	})
	if before != "" {
		c.secrets["an earlier code of the mail "+kind] = before
	}
	c.p.awaitUse(t, link)
	u, err := url.Parse(link)
	if err != nil {
		t.Fatal(err)
	}
	c.secrets["the code of the mail "+kind] = u.Query().Get("token")
	return u.Query().Get("token")
}

const carelessMail = "carol@example.com"

func (c *careless) signIn(t *testing.T, password string) {
	t.Helper()
	c.token = ""
	in := c.keep(t, "sign-in with "+password, c.call(t, 200, "POST", "/api/auth/login", map[string]string{"email": carelessMail, "password": password}), "access_token", "refresh_token")
	c.token, _ = in["access_token"].(string)
}

// passwords registers, mistypes, forgets and changes passwords.
func (c *careless) passwords(t *testing.T) {
	t.Helper()
	first, second, third := c.plant("the first password"), c.plant("the second password"), c.plant("the third password")
	c.call(t, 201, "POST", "/api/auth/register", map[string]string{"first_name": "Carol", "last_name": "Less", "email": carelessMail, "password": first})
	c.call(t, 200, "POST", "/api/auth/verify-email", map[string]string{"token": c.mailed(t, "verify_email", carelessMail), "password": first})
	c.call(t, 401, "POST", "/api/auth/login", map[string]string{"email": carelessMail, "password": c.plant("a wrong password")})
	// Who types the password where the address belongs.
	c.call(t, 401, "POST", "/api/auth/login", map[string]string{"email": c.plant("a password in place of an address") + "@example.com", "password": c.plant("a password of nobody")})
	c.call(t, 401, "POST", "/api/auth/refresh", map[string]string{"refresh_token": "wprt_" + c.plant("a refresh token that is none")})
	c.addresses(t, first)
	c.signIn(t, first)
	c.call(t, 200, "GET", "/api/auth/me?access_token="+c.plant("a token in a query"), nil)
	c.token = ""
	c.keep(t, "refresh", c.call(t, 200, "POST", "/api/auth/refresh", map[string]string{"refresh_token": c.secrets["sign-in with "+first+": refresh_token"]}), "access_token", "refresh_token")
	c.token = c.secrets["refresh: access_token"]
	if a := outside.Do(t, "POST", c.p.url+"/api/auth/password/change", outside.JSON(map[string]string{"current_password": c.plant("a wrong current password"), "new_password": second}),
		"Authorization", "Bearer "+c.token, "Content-Type", "application/json"); a.Status < 400 {
		t.Fatalf("a wrong current password: %d", a.Status)
	}
	c.call(t, 200, "POST", "/api/auth/password/change", map[string]string{"current_password": first, "new_password": second})
	c.token = ""
	c.call(t, 200, "POST", "/api/auth/password/forgot", map[string]string{"email": carelessMail})
	c.call(t, 400, "POST", "/api/auth/password/reset", map[string]string{"token": "wpml_" + c.plant("a code that is none"), "password": third})
	c.call(t, 200, "POST", "/api/auth/password/reset", map[string]string{"token": c.mailed(t, "reset_password", carelessMail), "password": third})
	c.signIn(t, third)
}

// addresses changes the address, and takes that back.
func (c *careless) addresses(t *testing.T, password string) {
	t.Helper()
	c.signIn(t, password)
	c.call(t, 202, "POST", "/api/auth/email/change", map[string]string{"email": "carol@example.org"})
	c.token = ""
	c.call(t, 200, "POST", "/api/auth/email/confirm", map[string]string{"token": c.mailed(t, "confirm_email", "carol@example.org")})
	c.call(t, 200, "POST", "/api/auth/email/undo", map[string]string{"token": c.mailed(t, "undo_email", carelessMail)})
	c.call(t, 200, "POST", "/api/auth/password/reset", map[string]string{"token": c.mailed(t, "reset_password", carelessMail), "password": password})
}

// tokens makes and uses an API token, and another that is none.
func (c *careless) tokens(t *testing.T) {
	t.Helper()
	made := c.keep(t, "API token", c.call(t, 201, "POST", "/api/auth/tokens", map[string]any{"name": "Bot", "scopes": []string{"read", "write"}}), "token")
	session := c.token
	c.token, _ = made["token"].(string)
	c.call(t, 200, "POST", "/api/posts", map[string]any{"title": "A bot's", "body": "Text", "tags": []string{}})
	c.token = "wp_" + c.plant("an API token that is none")
	c.call(t, 401, "GET", "/api/posts", nil)
	c.token = session
}

// secondFactor sets one up, and signs in with recovery codes.
func (c *careless) secondFactor(t *testing.T) {
	t.Helper()
	begun := c.keep(t, "second factor", c.call(t, 200, "POST", "/api/auth/2fa/setup", nil), "secret", "otpauth_uri")
	code, err := totp.GenerateCode(begun["secret"].(string), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	codes := func(a outside.Answer) []string {
		var in struct {
			Data struct {
				Codes []string `json:"recovery_codes"`
			}
		}
		a.Into(t, &in)
		for _, code := range in.Data.Codes {
			c.secrets["recovery code "+code] = code
			c.secrets["recovery code "+code+" as it is compared"] = strings.ReplaceAll(code, "-", "")
		}
		if len(in.Data.Codes) < 3 {
			t.Fatalf("recovery codes: %s", a.Body)
		}
		return in.Data.Codes
	}
	list := codes(c.call(t, 200, "POST", "/api/auth/2fa/enable", map[string]string{"code": code}))
	c.call(t, 401, "POST", "/api/auth/2fa/recovery-codes", map[string]string{"code": c.plant("a recovery code that is none")})
	codes(c.call(t, 200, "POST", "/api/auth/2fa/recovery-codes", map[string]string{"code": list[0]}))
	c.token = ""
	in := c.keep(t, "first step", c.call(t, 200, "POST", "/api/auth/login", map[string]string{"email": carelessMail, "password": c.secrets["the third password"]}), "mfa_token")
	c.call(t, 401, "POST", "/api/auth/2fa/verify", map[string]any{"mfa_token": in["mfa_token"], "code": c.plant("a second factor that is none")})
}

// sites makes a site and its keys, and receives a payment.
func (c *careless) sites(t *testing.T) {
	t.Helper()
	site := c.keep(t, "site", c.call(t, 201, "POST", "/api/admin/sites", map[string]string{"name": "Blog", "domain": "blog.example.com"}))
	path := fmt.Sprintf("/api/admin/sites/%s/keys", site["id"])
	key := c.keep(t, "site API key", c.call(t, 201, "POST", path, map[string]string{"name": "dashboard"}), "key")
	c.keep(t, "rotated site API key", c.call(t, 201, "POST", fmt.Sprintf("%s/%s/rotate", path, key["id"]), nil), "key")
	body := fmt.Sprintf(`{"id":"evt_planted","type":"payment.succeeded","card":%q}`, c.plant("what a provider sent"))
	for _, secret := range []string{c.secrets["PAYMENT_WEBHOOK_SECRET"], c.plant("a webhook secret that is none")} {
		outside.Do(t, "POST", c.p.url+"/webhooks/payment", body, "Payment-Signature", outside.PaymentSignature(secret, body))
	}
	c.call(t, 401, "GET", "/api/stats/summary", nil, "X-Analytics-API-Key", c.plant("a site API key that is none"))
}

// stored notes what the database keeps of secrets.
func (c *careless) stored(t *testing.T, ownerURL string) {
	t.Helper()
	rows, err := connect(t, ownerURL).Query(t.Context(), `
		select 'password_hash', password_hash from users where password_hash <> ''
		union all select 'refresh token', encode(token_sha256, 'hex') from refresh_tokens
		union all select 'mail token', encode(token_sha256, 'hex') from mail_tokens
		union all select 'change of the address', encode(s, 'hex') from email_changes, unnest(array[confirm_sha256, undo_sha256]) s
		union all select 'API token', encode(token_sha256, 'hex') from api_tokens
		union all select 'TOTP', encode(secret, 'hex') from totp_factors
		union all select 'recovery code', encode(code_sha256, 'hex') from recovery_codes
		union all select 'signing key', encode(private_key, 'hex') from signing_keys
		union all select 'audit key', encode(private_key, 'hex') from audit_keys
		union all select 'import secret', encode(box, 'hex') from site_import_secrets where box is not null
		union all select 'site key', encode(key_sha256, 'hex') from site_api_keys`)
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]bool{}
	for n := 0; rows.Next(); n++ {
		var kind, value string
		if err := rows.Scan(&kind, &value); err != nil {
			t.Fatal(err)
		}
		kinds[kind] = true
		c.secrets[fmt.Sprintf("stored: %s %d", kind, n)] = value
		if raw, err := hex.DecodeString(value); err == nil {
			c.secrets[fmt.Sprintf("stored: %s %d, its bytes", kind, n)] = string(raw)
		}
	}
	if rows.Err() != nil || len(kinds) != 11 {
		t.Fatalf("the database has secrets of %v: %v", kinds, rows.Err())
	}
}

func TestNoSecretIsInTheAuditLog(t *testing.T) {
	t.Parallel()
	urls, dir := dbtest.NewURL(t), dbtest.TempDir(t)
	c := &careless{secrets: planted{}}
	c.p = startDev(t, dir, "DATABASE_URL="+urls.App, "WAYPOST_DATABASE_OWNER_URL="+urls.Owner, "WAYPOST_METRICS_TOKEN="+c.plant("the metrics token"))
	values := devValues(t, dir)
	for _, name := range []string{"WAYPOST_ADMIN_PASSWORD", "ANALYTICS_API_KEY", "PAYMENT_WEBHOOK_SECRET", "CODEHOST_WEBHOOK_SECRET"} {
		c.secrets[name] = values[name]
	}
	key, err := os.ReadFile(filepath.Join(dir, "secret.key"))
	if err != nil {
		t.Fatal(err)
	}
	c.secrets["WAYPOST_SECRET_KEY"] = strings.TrimSpace(string(key))
	code, _, errOut := command(t, []string{"DATABASE_URL=" + urls.App}, c.plant("a password for the command line")+"\n",
		"user", "create", "--email", "eve@example.com", "--first-name", "Eve", "--last-name", "Ve")
	if code != 0 {
		t.Fatal(errOut)
	}
	c.passwords(t)
	c.tokens(t)
	c.secondFactor(t)
	c.token = signIn(t, c.p, values["WAYPOST_ADMIN_EMAIL"], values["WAYPOST_ADMIN_PASSWORD"])
	c.secrets["an administrator's access token"] = c.token
	c.sites(t)
	c.call(t, 200, "GET", "/api/admin/audit/key", nil) // which makes one
	c.stored(t, urls.Owner)

	// What is no secret is found in every form, or the search would prove nothing.
	shown := planted{"shown": "a text that anybody may read"}
	for _, value := range leaked(shown["shown"]) {
		c.call(t, 200, "POST", "/api/posts", map[string]any{"title": "Shown", "body": "<" + value + ">", "tags": []string{}})
	}
	export := outside.Do(t, "GET", c.p.url+"/api/admin/audit/export", "", "Authorization", "Bearer "+c.token)
	if export.Status != 200 {
		t.Fatalf("%d %s", export.Status, export.Body)
	}
	if got, want := len(shown.traces(export.Body)), len(leaked("x")); got != want {
		t.Errorf("%d of %d forms are found of what is no secret: %v", got, want, shown.traces(export.Body))
	}
	for what, secret := range c.secrets {
		if len(secret) < 8 {
			t.Errorf("%s is too short to be looked for: %q", what, secret)
		}
	}
	for _, trace := range c.secrets.traces(export.Body) {
		t.Errorf("the log has %s", trace)
	}
	entries, redacted := bytes.Count(export.Body, []byte("\n")), bytes.Count(export.Body, []byte("[redacted]"))
	if entries < 60 || redacted < 30 {
		t.Errorf("%d entries with %d redacted values: too few for what was done", entries, redacted)
	}
	t.Logf("%d secrets in %d entries with %d redacted values", len(c.secrets), entries, redacted)
}
