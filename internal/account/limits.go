package account

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
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
	// signInFromHome is the streak of a network from which the account signed in of
	// late. It alone counts there, so that strangers' guesses don't block the owner.
	signInFromHome   = throttle.Limit{Name: "sign_in.home", Max: 10, Block: time.Minute, MaxBlock: 15 * time.Minute}
	signInOfAddress  = throttle.Limit{Name: "sign_in.address", Max: 100, Window: 15 * time.Minute}
	reauthentication = throttle.Limit{Name: "reauthentication", Max: 10, Block: time.Minute, MaxBlock: 15 * time.Minute}
)

// Limits of what succeeds, in 15 minutes. Nobody who uses a browser comes near them:
// they bound what a program that goes wrong writes, and a password that was found out.
var (
	// rightPasswords is of one account from one network, so that who shares a network
	// with it loses nothing.
	rightPasswords    = throttle.Limit{Name: "signed_in", Max: 300, Window: 15 * time.Minute}
	reauthentications = throttle.Limit{Name: "reauthenticated", Max: 60, Window: 15 * time.Minute}
	refreshesOfOne    = throttle.Limit{Name: "refresh.session", Max: 300, Window: 15 * time.Minute}
	refreshes         = throttle.Limit{Name: "refresh.account", Max: 3000, Window: 15 * time.Minute}
)

// Limits of what anonymous clients ask for, and of mails.
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

// Limits are all of these, as they stand in the database.
func Limits() []throttle.Limit {
	list := []throttle.Limit{
		signInOfAccount, signInFromHome, reauthentication, secondFactorTries, reauthentications, refreshesOfOne, refreshes,
		resetMails, verificationMails, emailChanges, changeMails,
	}
	for _, l := range []throttle.Limit{signInOfAddress, rightPasswords, registrations, resetRequests, verificationRequests, emailChangesFrom, oauthStarts} {
		list = append(list, l, widened(l))
	}
	return list
}

// attempt is the keys of one sign-in: gate and right must be open for it. gate counts
// its failure, and so does each list of also that is not at its limit; right counts a
// right password.
type attempt struct {
	gate  []throttle.Key
	also  [][]throttle.Key
	right []throttle.Key
}

// attemptOf is the keys of a sign-in to the account with that address. Where the
// account is at home, neither strangers' guesses at it nor the neighbours' failures
// count, but the failures at home do.
func attemptOf(ctx context.Context, email string, atHome bool) attempt {
	subject := emailSubject(email)
	own := []throttle.Key{{Limit: signInOfAccount, Subject: subject}}
	network := byNetwork(ctx, signInOfAddress, "")
	a := attempt{gate: slices.Concat(own, network), right: byNetwork(ctx, rightPasswords, subject+"@")}
	if atHome {
		a.gate = byNetwork(ctx, signInFromHome, subject+"@")[:1]
		a.also = [][]throttle.Key{own, network}
	}
	return a
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

// LimitSubject is what stands for an e-mail address in the subjects of Limits.
func LimitSubject(email string) string { return emailSubject(email) }

// reauthenticate checks the password of an account that is signed in already. It
// returns ErrReauthenticate, throttle.ErrLimited or ErrBusy.
func (s *core) reauthenticate(ctx context.Context, row dbsqlc.User, password string) error {
	key := throttle.Key{Limit: reauthentication, Subject: strconv.FormatInt(row.ID, 10)}
	right := throttle.Key{Limit: reauthentications, Subject: key.Subject}
	if err := s.limits.Check(ctx, key, right); err != nil {
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
	return s.pass(ctx, []throttle.Key{key}, []throttle.Key{right})
}

// RecentSignIn is how long a sign-in is proof enough for what could lose an account.
const RecentSignIn = 15 * time.Minute

// RequireRecent returns ErrReauthenticate unless the acting account signed in of
// late. An API token never did.
func (s *core) requireRecent(ctx context.Context) error {
	p := identity.FromContext(ctx)
	if p.SessionID == "" || s.o.Now().Sub(p.SignedInAt) > RecentSignIn {
		return ErrReauthenticate
	}
	return nil
}
