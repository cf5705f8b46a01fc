package security

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/audit"
)

// Settings are what the checklist looks at of how this process is configured.
type Settings struct {
	// URL is the service's own, Addr where it listens.
	URL, Addr string
	// WeakSecretKey says what is wrong with the secret key, "" for nothing. PreviousKey
	// says that there is a former one beside it.
	WeakSecretKey string
	PreviousKey   bool
	// Keys name what is encrypted under the current secret key.
	Keys KeyIDs
	// AdminSecondFactor says that administrators need a second factor.
	AdminSecondFactor bool
	MetricsAddr       string
	MetricsToken      bool
	MailDriver        string // smtp, log or none
	MailHost          string
	MailTLS           string // mandatory, opportunistic or none
	TrustedProxies    []netip.Prefix
	Forwarding        Forwarding
	CheckpointFile    bool
	Viewer            bool // the console of the database page is on
	Debug             []string
	Providers         []Provider
}

// KeyIDs are the current secret key's names for each purpose; see package seal.
type KeyIDs struct{ Signing, SecondFactor, Mail, Audit string }

// Forwarding is what this process saw of X-Forwarded-For since it started.
type Forwarding struct {
	// Ignored is a peer in a private network whose header is not believed, Unreadable a
	// trusted one whose header can't be read; the zero Addr for none.
	Ignored, Unreadable netip.Addr
}

// Provider sends webhooks.
type Provider struct {
	Name, SecretEnv string
	HasSecret       bool
}

// Check is a line of the checklist.
type Check struct {
	Name string
	OK   bool
	// Sentence is what was found, Mend what mends it: "" where nothing is to mend.
	Sentence, Mend string
	// Href leads to where it is mended: one of these, "" for none of them.
	Href string
}

// Where things are mended.
const (
	AtAccounts    = "/admin/users"
	AtAdmins      = AtAccounts + "?role=ADMIN"
	AtSites       = "/admin/stats"
	AtTasks       = "/admin/cron"
	AtChain       = "/admin/audit/chain"
	AtCheckpoints = "/admin/audit/checkpoints"
	AtRejected    = "/admin/webhooks/rejected"
	AtMails       = "/admin/mails"
)

const (
	// unusedAfter is when a token that nobody uses is worth a look, oldAfter a site's key.
	unusedAfter = 90 * day
	oldAfter    = 365 * day
	// signingKeyAfter is when the rotation of the signing key, every 30 days, is late.
	signingKeyAfter = 45 * day
	// checkpointAfter is when a checkpoint is late, recentAfter and wholeAfter a
	// verification of the audit log.
	checkpointAfter = 10 * time.Minute
	recentAfter     = 15 * time.Minute
	wholeAfter      = 2 * day
)

// found is what the lines are made of.
type found struct {
	Settings
	now        time.Time
	facts      dbsqlc.FindSecurityFactsRow
	census     Census
	state      State
	user       string
	owns       bool
	powerful   bool // the console's role
	verified   []audit.Verification
	delivering []string
}

// View is all that the page shows.
type View struct {
	State  State
	Census Census
	// Checks are the checklist, what is to mend first.
	Checks []Check
	Audit  AuditState
}

// AuditState is how the audit log is.
type AuditState struct {
	Entries int64
	// CheckpointSize is how many of them the latest checkpoint is over, 0 without one.
	CheckpointSize int64
	CheckpointAt   time.Time
	Verified       []audit.Verification
}

// Look reads the View. Parts of it may be a minute old.
func (s *Service) Look(ctx context.Context) (View, error) {
	f, err := s.find(ctx)
	if err != nil {
		return View{}, err
	}
	return View{f.state, f.census, f.checks(), AuditState{f.facts.AuditSeq, f.facts.CheckpointSize, f.facts.CheckpointAt, f.verified}}, nil
}

// checks are the checklist, what is to mend first.
func (f found) checks() []Check {
	list := slices.Concat(f.transport(), f.keys(), f.people(), f.credentials(), f.database(), f.auditLog(), f.webhooks(), f.operation())
	slices.SortStableFunc(list, func(a, b Check) int {
		switch {
		case a.OK == b.OK:
			return 0
		case b.OK:
			return -1
		}
		return 1
	})
	return list
}

func (s *Service) find(ctx context.Context) (found, error) {
	f := found{now: s.o.Now()}
	var err error
	if f.Settings, err = s.o.Settings(ctx); err != nil {
		return f, err
	}
	if f.census, err = s.Count(ctx); err != nil {
		return f, err
	}
	if f.state, err = s.Current(ctx); err != nil {
		return f, err
	}
	if f.facts, err = s.checked.get(s.o.Now, censusFresh, func() (dbsqlc.FindSecurityFactsRow, error) { return s.readFacts(ctx, f) }); err != nil {
		return f, err
	}
	if f.user, f.owns, err = s.o.DB.OwnsTables(ctx); err != nil {
		return f, fmt.Errorf("security: %w", err)
	}
	f.powerful, err = s.queries.FindViewerRole(ctx, s.o.DB.Direct(), db.ViewerRole)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return f, fmt.Errorf("security: read roles: %w", db.Translate(err))
	}
	if f.verified, err = audit.Verifications(ctx, s.o.DB); err != nil {
		return f, err
	}
	var names []string
	for _, p := range f.Providers {
		names = append(names, p.Name)
	}
	if f.delivering, err = s.queries.ListDeliveringProviders(ctx, s.o.DB.Direct(), names, f.now.Add(-ofLate)); err != nil {
		return f, fmt.Errorf("security: read deliveries: %w", db.Translate(err))
	}
	return f, nil
}

func (s *Service) readFacts(ctx context.Context, f found) (dbsqlc.FindSecurityFactsRow, error) {
	row, err := s.queries.FindSecurityFacts(ctx, s.o.DB.Direct(), dbsqlc.FindSecurityFactsParams{
		Now: f.now, UnusedSince: f.now.Add(-unusedAfter), OldSince: f.now.Add(-oldAfter),
		SigningKeyID: f.Keys.Signing, TotpKeyID: f.Keys.SecondFactor, MailKeyID: f.Keys.Mail, AuditKeyID: f.Keys.Audit,
	})
	if err != nil {
		return row, fmt.Errorf("security: read the checklist: %w", db.Translate(err))
	}
	return row, nil
}

func well(name, sentence string) Check { return Check{Name: name, OK: true, Sentence: sentence} }

func warn(name, sentence, mend, href string) Check {
	return Check{Name: name, Sentence: sentence, Mend: mend, Href: href}
}

// transport is about how the service is reached.
func (f found) transport() []Check {
	return []Check{f.https(), f.proxies(), f.metrics()}
}

func (f found) https() Check {
	const name = "Encrypted connections"
	u, err := url.Parse(f.URL)
	switch {
	case err == nil && u.Scheme == "https":
		return well(name, "The service's URL is https, so cookies are sent over encrypted connections alone.")
	case err == nil && isLoopback(u.Hostname()) && isLoopback(hostOf(f.Addr)):
		return well(name, "The service listens on this machine alone, at "+f.URL+".")
	}
	return warn(name, "The service is reached without https: passwords, tokens and cookies can be read on their way.",
		"Put a proxy with a certificate before it, and set WAYPOST_URL to its https address.", "")
}

func (f found) proxies() Check {
	const name = "Clients' addresses"
	for _, p := range f.TrustedProxies {
		if p.Bits() < 8 {
			return warn(name, "WAYPOST_TRUSTED_PROXIES trusts "+p.String()+": anybody can pretend to have any address, and so escape every limit that counts by address.",
				"List only the addresses of your own proxies in WAYPOST_TRUSTED_PROXIES.", "")
		}
	}
	switch {
	case f.Forwarding.Ignored.IsValid():
		return warn(name, f.Forwarding.Ignored.String()+" sends X-Forwarded-For and is not trusted. If that is your proxy, all of its clients share one address, and the limits of one.",
			"Add it to WAYPOST_TRUSTED_PROXIES if it is your proxy.", "")
	case f.Forwarding.Unreadable.IsValid():
		return warn(name, "The trusted proxy "+f.Forwarding.Unreadable.String()+" sends an X-Forwarded-For that can't be read, so its clients share one address.",
			"Let the proxy send addresses, with or without a port.", "")
	case len(f.TrustedProxies) == 0:
		return well(name, "No proxy is trusted, and this process has seen none.")
	}
	return well(name, "X-Forwarded-For is believed from "+plural(int64(len(f.TrustedProxies)), "network", "networks")+" alone.")
}

func (f found) metrics() Check {
	const name = "Metrics"
	switch {
	case f.MetricsToken:
		return well(name, "Who reads /metrics needs a token.")
	case f.MetricsAddr == "":
		return well(name, "There is no /metrics.")
	case isLoopback(hostOf(f.MetricsAddr)):
		return well(name, "Metrics are shown on this machine alone.")
	}
	return warn(name, "Whoever reaches "+f.MetricsAddr+" can read the metrics: routes, rates and versions.", "Set WAYPOST_METRICS_TOKEN, or let WAYPOST_METRICS_ADDR be an address that strangers can't reach.", "")
}

// keys is about the secret key and what is encrypted under it.
func (f found) keys() []Check {
	list := []Check{well("Secret key", "WAYPOST_SECRET_KEY is long and varied enough."), f.rotation()}
	if weak, _, _ := strings.Cut(f.WeakSecretKey, ";"); weak != "" { // how to make one is said beside it
		list[0] = warn("Secret key", weak+".", "Set another WAYPOST_SECRET_KEY, and this one as WAYPOST_SECRET_KEY_PREVIOUS (docs/operations.md).", "")
	}
	age := f.now.Sub(f.facts.SigningKeyAt)
	switch {
	case f.facts.SigningKeyAt.Unix() == 0:
		list = append(list, well("Signing key", "No access token has been signed yet."))
	case age > signingKeyAfter:
		list = append(list, warn("Signing key", "The key that signs access tokens is "+inDays(age)+" old; it is to be replaced after 30 days.", "See why signing_keys.rotate does not run.", AtTasks))
	default:
		list = append(list, well("Signing key", "The key that signs access tokens is "+inDays(age)+" old."))
	}
	return list
}

func (f found) rotation() Check {
	const name = "Rotation of the secret key"
	stale := f.facts.StaleSigningKeys + f.facts.StaleFactors + f.facts.StaleMails + f.facts.StaleAuditKeys
	switch {
	case stale > 0 && f.PreviousKey:
		return warn(name, "The previous key still protects "+plural(stale, "secret", "secrets")+".",
			"Restart every instance with the new key, which encrypts them anew, and keep WAYPOST_SECRET_KEY_PREVIOUS until this line says that nothing needs it.", "")
	case stale > 0:
		return warn(name, plural(stale, "secret is", "secrets are")+" encrypted under a key that is not at hand.", "Give the former key as WAYPOST_SECRET_KEY_PREVIOUS and restart.", "")
	case f.PreviousKey:
		return warn(name, "Nothing needs the previous key any more.", "Take WAYPOST_SECRET_KEY_PREVIOUS out of the environment.", "")
	}
	return well(name, "All that is encrypted is so under the current key.")
}

// people is about second factors of administrators.
func (f found) people() []Check {
	const name, demanded = "Administrators' second factor", "Second factor demanded"
	list := []Check{well(name, "Every administrator has one."), well(demanded, "WAYPOST_REQUIRE_ADMIN_2FA lets no administrator do anything without one.")}
	if n := int64(len(f.census.Unprotected)); n > 0 {
		list[0] = warn(name, plural(n, "administrator signs", "administrators sign")+" in with a password alone; they are listed below.",
			"Each sets it up on the page /admin/two-factor; whoever needs no such rights gets another role.", AtAdmins)
	}
	if !f.AdminSecondFactor {
		list[1] = warn(demanded, "An administrator may do without a second factor.", "Set WAYPOST_REQUIRE_ADMIN_2FA=true once every administrator has one.", "")
	}
	return list
}

// credentials is about tokens and keys.
func (f found) credentials() []Check {
	list := []Check{
		well("Tokens without an end", "Every API token expires."), well("Unused tokens", "Every API token was used, or made, in the last 90 days."),
		well("Sites' keys", "No secret key of a site is older than a year."),
	}
	if n := f.facts.EndlessTokens; n > 0 {
		list[0] = warn(list[0].Name, plural(n, "API token never expires", "API tokens never expire")+": whoever finds one can use it for ever.", "Replace it by one with an end, and revoke it on its account's page.", AtAccounts)
	}
	if n := f.facts.UnusedTokens; n > 0 {
		list[1] = warn(list[1].Name, plural(n, "API token works and was", "API tokens work and were")+" not used for 90 days.", "Revoke what nobody needs on its account's page.", AtAccounts)
	}
	if n := f.facts.OldSiteKeys; n > 0 {
		list[2] = warn(list[2].Name, plural(n, "secret key of a site is", "secret keys of sites are")+" older than a year.", "Rotate it on its site's page: both work for a day.", AtSites)
	}
	return list
}

func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.IsLoopback()
}

// hostOf is the host of an address to listen on, "" for all.
func hostOf(addr string) string {
	if i := strings.LastIndexByte(addr, ':'); i >= 0 {
		addr = addr[:i]
	}
	return strings.Trim(addr, "[]")
}

func inDays(d time.Duration) string { return plural(int64(d/day), "day", "days") }
