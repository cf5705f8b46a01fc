package security_test

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/internal/security"
)

// exemplary are settings with which nothing is to mend.
func exemplary() security.Settings {
	return security.Settings{
		URL: "https://waypost.example", Addr: ":8080", AdminSecondFactor: true, MailDriver: "smtp", MailHost: "mail.example", MailTLS: "mandatory", CheckpointFile: true,
		Keys: security.KeyIDs{Signing: "new", SecondFactor: "new", Mail: "new", Audit: "new"},
	}
}

// toMend are the names of what is to mend, of a database that is ready for production
// and in which statements were executed.
func toMend(t *testing.T, change func(*security.Settings), statements ...string) []security.Check {
	t.Helper()
	d := dbtest.New(t)
	for _, sql := range append([]string{
		`insert into audit_verifications (kind, at, to_seq, to_hash, ok) values ('recent', '2026-11-22T12:30Z', 0, '', true), ('whole', '2026-11-22T12:30Z', 0, '', true)`,
		`insert into users (first_name, last_name, email, email_key, password_hash, role, created_at, updated_at) values ('Ada', 'Love', 'a@example.com', 'a@example.com', 'x', 'ADMIN', now(), now())`,
		`insert into totp_factors (user_id, secret, secret_key_id, created_at, confirmed_at) select id, '\x00', 'new', now(), now() from users`,
	}, statements...) {
		exec(t, d, sql)
	}
	settings := exemplary()
	if change != nil {
		change(&settings)
	}
	p := newProcess(t, d, func(o *security.Options) {
		o.Settings = func(context.Context) (security.Settings, error) { return settings, nil }
	})
	var list []security.Check
	for _, c := range p.look(t).Checks {
		if c.Sentence == "" || !c.OK && c.Mend == "" {
			t.Errorf("%+v says too little", c)
		}
		if !c.OK {
			list = append(list, c)
		}
	}
	return list
}

func TestNothingIsToMendWhereAllIsWell(t *testing.T) {
	t.Parallel()
	for _, c := range toMend(t, nil) {
		t.Errorf("%+v", c)
	}
}

func TestEachLineOfTheChecklistSeesWhatItIsAbout(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change     func(*security.Settings)
		statements []string
		want       string
	}{
		"Encrypted connections":         {change: func(s *security.Settings) { s.URL = "http://waypost.example" }, want: "https"},
		"Clients' addresses":            {change: func(s *security.Settings) { s.Forwarding.Ignored = netip.MustParseAddr("10.0.0.9") }, want: "10.0.0.9"},
		"Clients' addresses 2":          {change: func(s *security.Settings) { s.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")} }, want: "0.0.0.0/0"},
		"Metrics":                       {change: func(s *security.Settings) { s.MetricsAddr = ":9100" }, want: ":9100"},
		"Secret key":                    {change: func(s *security.Settings) { s.WeakSecretKey = "It is weak" }, want: "weak"},
		"Rotation of the secret key":    {change: func(s *security.Settings) { s.Keys.SecondFactor = "newer"; s.PreviousKey = true }, want: "1 secret"},
		"Rotation of the secret key 2":  {change: func(s *security.Settings) { s.PreviousKey = true }, want: "Nothing needs"},
		"Second factor demanded":        {change: func(s *security.Settings) { s.AdminSecondFactor = false }, want: "may do without"},
		"Administrators' second factor": {statements: []string{`delete from totp_factors`}, want: "1 administrator"},
		"Tokens without an end":         {statements: []string{`insert into api_tokens (user_id, name, prefix, token_sha256, scopes, created_at) select id, 't', 'p', '\x00', '{read}', '2026-11-20' from users`}, want: "1 API token never"},
		"Unused tokens":                 {statements: []string{`insert into api_tokens (user_id, name, prefix, token_sha256, scopes, created_at, expires_at) select id, 't', 'p', '\x00', '{read}', '2026-01-20', '2027-01-01' from users`}, want: "1 API token works"},
		"Sites' keys": {statements: []string{`insert into sites (id, name, domain, timezone, site_key, created_at, updated_at) values ('01890000-0000-7000-8000-000000000000', 's', 'd.example', 'UTC', 'k', now(), now())`,
			`insert into site_api_keys (site_id, id, name, scope, prefix, key_sha256, created_at) select id, '01890000-0000-7000-8000-000000000001', 'k', 'read', 'p', '\x00', '2025-01-01' from sites`}, want: "1 secret key"},
		"Audit chain":                      {statements: []string{`update audit_verifications set ok = false, bad_seq = 7, bad_reason = 'row_hash' where kind = 'whole'`}, want: "row_hash"},
		"Audit chain 2":                    {statements: []string{`update audit_verifications set at = '2026-11-22T11:00Z' where kind = 'recent'`}, want: "recent verification"},
		"Checkpoints outside the database": {change: func(s *security.Settings) { s.CheckpointFile = false }, want: "unseen"},
		"Webhook secrets": {change: func(s *security.Settings) {
			s.Providers = []security.Provider{{Name: "payment", SecretEnv: "PAYMENT_SECRET"}}
		},
			statements: []string{refusedDelivery}, want: "PAYMENT_SECRET"},
		"Refused webhooks": {change: func(s *security.Settings) { s.Providers = []security.Provider{{Name: "payment", HasSecret: true}} },
			statements: []string{refusedDelivery}, want: "payment"},
		"Mail":                     {change: func(s *security.Settings) { s.MailDriver = "none" }, want: "nobody can reset"},
		"Mail 2":                   {change: func(s *security.Settings) { s.MailTLS = "opportunistic" }, want: "unencrypted"},
		"Settings for development": {change: func(s *security.Settings) { s.Debug = []string{"WAYPOST_LOG_LEVEL=debug"} }, want: "WAYPOST_LOG_LEVEL"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			list := toMend(t, c.change, c.statements...)
			i := slices.IndexFunc(list, func(found security.Check) bool { return found.Name == strings.TrimSuffix(name, " 2") })
			if i < 0 || !strings.Contains(list[i].Sentence, c.want) {
				t.Errorf("%+v", list)
			}
		})
	}
}

const refusedDelivery = `insert into webhook_rejected (id, provider, reason, headers, size, created_at)
	values ('01890000-0000-7000-8000-000000000002', 'payment', 'signature_missing', '{}', 2, '2026-11-22T12:00Z')`
