package account

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/netip"
	"strconv"
	"time"

	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/throttle"
)

// Limits of failures. A streak blocks for a minute first and never longer than a
// quarter of an hour, and a reset of the password by mail lifts it: nobody can
// keep an owner out for good.
var (
	signInOfAccount = throttle.Limit{Name: "sign_in.account", Max: 10, Block: time.Minute, MaxBlock: 15 * time.Minute}
	// signInFromHome is the streak of an address from which the account signed in of
	// late. It alone counts there, so that strangers' guesses don't block the owner.
	signInFromHome   = throttle.Limit{Name: "sign_in.home", Max: 10, Block: time.Minute, MaxBlock: 15 * time.Minute}
	signInOfAddress  = throttle.Limit{Name: "sign_in.address", Max: 100, Window: 15 * time.Minute}
	reauthentication = throttle.Limit{Name: "reauthentication", Max: 10, Block: time.Minute, MaxBlock: 15 * time.Minute}
)

// Limits of what succeeds.
var (
	registrations = throttle.Limit{Name: "register.address", Max: 60, Window: time.Hour}
	resetRequests = throttle.Limit{Name: "forgot.address", Max: 60, Window: time.Hour}
	resetMails    = throttle.Limit{Name: "forgot.account", Max: 5, Window: time.Hour}

	verificationRequests = throttle.Limit{Name: "verification.address", Max: 60, Window: time.Hour}
	verificationMails    = throttle.Limit{Name: "verification.account", Max: 5, Window: time.Hour}

	// emailChanges and emailChangesFrom count tries, so that they tell nothing of who has
	// an address; changeMails bounds what a stranger's address gets of all accounts' tries.
	emailChanges     = throttle.Limit{Name: "email_change.account", Max: 10, Window: time.Hour}
	emailChangesFrom = throttle.Limit{Name: "email_change.address", Max: 60, Window: time.Hour}
	changeMails      = throttle.Limit{Name: "email_change.recipient", Max: 5, Window: time.Hour}
)

// home is how long an address is remembered as one of the account's own.
const home = 30 * 24 * time.Hour

// attempt is the keys of one sign-in: gate must be open for it; gate and also
// count its failure.
type attempt struct {
	gate []throttle.Key
	also []throttle.Key
}

// streaks are the keys that a right password clears.
func (a attempt) streaks() []throttle.Key {
	var list []throttle.Key
	for _, k := range a.gate {
		if k.Limit.Window == 0 {
			list = append(list, k)
		}
	}
	return list
}

// emailSubject stands for an address in a limit. It is a digest, for people type
// their passwords into the wrong field.
func emailSubject(email string) string {
	digest := sha256.Sum256([]byte(emailKey(email)))
	return hex.EncodeToString(digest[:16])
}

// payersOf are to whom the hash of a password is charged: the account with that
// address, whether there is one or not, and the client's network. A command has no
// network, and the queue of its process to itself.
func payersOf(ctx context.Context, email string) []string {
	payers := []string{"account " + emailSubject(email)}
	if address := identity.FromContext(ctx).Address; address.IsValid() {
		payers = append(payers, "network "+networkOf(address))
	}
	return payers
}

// networkOf is what one client can't easily change: an IPv4 address, or the /64
// of an IPv6 one.
func networkOf(a netip.Addr) string {
	if a = a.Unmap(); a.Is6() {
		p, err := a.WithZone("").Prefix(64)
		if err == nil {
			return p.String()
		}
	}
	return a.String()
}

// perAddress limits what anonymous clients do; a caller without an address, such
// as a command, is not limited.
func (s *core) perAddress(ctx context.Context, l throttle.Limit) error {
	address := identity.FromContext(ctx).Address
	if !address.IsValid() {
		return nil
	}
	return s.limits.Count(ctx, throttle.Key{Limit: l, Subject: networkOf(address)})
}

// reauthenticate checks the password of an account that is signed in already. It
// returns ErrReauthenticate, throttle.ErrLimited or ErrBusy.
func (s *core) reauthenticate(ctx context.Context, row dbsqlc.User, password string) error {
	key := throttle.Key{Limit: reauthentication, Subject: strconv.FormatInt(row.ID, 10)}
	if err := s.limits.Check(ctx, key); err != nil {
		return err
	}
	if row.PasswordHash == "" {
		return ErrReauthenticate
	}
	matches, err := s.hasher.verify(ctx, password, row.PasswordHash, payersOf(ctx, row.Email))
	if err != nil {
		return err
	}
	if !matches {
		if err := s.limits.Count(ctx, key); err != nil {
			return err
		}
		return ErrReauthenticate
	}
	return s.pass(ctx, key)
}

// recent is how long a sign-in is proof enough for what could lose an account.
const recent = 15 * time.Minute

// RequireRecent returns ErrReauthenticate unless the acting account signed in of
// late. An API token never did.
func (s *core) requireRecent(ctx context.Context) error {
	p := identity.FromContext(ctx)
	if p.SessionID == "" || s.o.Now().Sub(p.SignedInAt) > recent {
		return ErrReauthenticate
	}
	return nil
}
