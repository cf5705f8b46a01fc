package account

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/account/oauth"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/text"
)

// Faults of identities.
var (
	ErrLinkRequired      = fault.New(fault.Conflict, "email_exists_link_required", "An account has that e-mail address. Sign in to it, then link this identity.")
	ErrIdentityTaken     = fault.New(fault.Conflict, "identity_already_linked", "That identity belongs to another account.")
	ErrLastIdentity      = fault.New(fault.Invalid, "last_identity", "This is the last way to sign in to the account. Set a password or link another identity first.")
	ErrUnverifiedOutside = fault.New(fault.Forbidden, "email_unverified", "The provider does not say that the e-mail address is verified. Verify it there, or register with a password.")
	ErrNoAddress         = fault.New(fault.Invalid, "oauth_email_missing", "The provider gave no usable e-mail address. Register with a password, then link this identity.")
	ErrMissingIdentity   = fault.Missing("identity")
)

// Identity is the identity of an account's holder at a provider.
type Identity struct {
	ID       int64
	Provider string
	// Email is what the provider told last; empty when it told none.
	Email      string
	CreatedAt  time.Time
	LastUsedAt time.Time
}

func identityFrom(r dbsqlc.Identity) Identity {
	return Identity{ID: r.ID, Provider: r.Provider, Email: r.Email, CreatedAt: r.CreatedAt.UTC(), LastUsedAt: r.LastUsedAt.UTC()}
}

// outsider is what a provider told, made fit for the database.
type outsider struct {
	provider, subject, email string
	verified                 bool
	firstName, lastName      string
}

func outsiderOf(id oauth.Identity) outsider {
	o := outsider{provider: id.Provider, subject: id.Subject, email: strings.TrimSpace(id.Email), verified: id.EmailVerified}
	if !validEmail(o.email) {
		o.email, o.verified = "", false
	}
	o.firstName, o.lastName = names(id)
	return o
}

// names makes two names of what the provider tells; both can be changed later.
func names(id oauth.Identity) (string, string) {
	first, last := id.GivenName, id.FamilyName
	if first == "" || last == "" {
		first, last, _ = strings.Cut(strings.TrimSpace(id.Name), " ")
	}
	return name(first, "New"), name(last, "User")
}

func name(s, otherwise string) string {
	s = strings.TrimSpace(s)
	if runes := []rune(s); len(runes) > MaxName {
		s = string(runes[:MaxName])
	}
	if s = text.Trim(s); !text.Storable(s) || !text.IsLine(s) || utf8.RuneCountInString(s) < MinName {
		return otherwise
	}
	return s
}

// accountOf finds or makes the account of an outsider and links the two. It
// returns ErrLinkRequired, ErrUnverifiedOutside or ErrNoAddress.
func (s *Identities) accountOf(ctx context.Context, tx pgx.Tx, o outsider) (dbsqlc.User, error) {
	// An insert that finds the row taken says that somebody just made it: then
	// the next round sees it.
	for range 3 {
		known, err := s.queries.UseIdentity(ctx, tx, dbsqlc.UseIdentityParams{Provider: o.provider, Subject: o.subject, Email: o.email, Now: s.o.Now()})
		if err == nil {
			return s.queries.FindUserByID(ctx, tx, known.UserID)
		}
		if !errors.Is(err, pgx.ErrNoRows) {
			return dbsqlc.User{}, err
		}
		row, made, err := s.accountByAddress(ctx, tx, o)
		if err == nil {
			_, err = s.queries.InsertIdentity(ctx, tx, s.newIdentity(row.ID, o))
		}
		if err == nil && !made {
			err = s.tellIdentity(ctx, tx, row, o.provider, "linked to your account, which has the same e-mail address")
		}
		if !errors.Is(err, pgx.ErrNoRows) {
			return row, err
		}
	}
	return dbsqlc.User{}, ErrBusy
}

// accountByAddress returns the account that o may be linked to by its address, or
// a new one, and whether it is new. It returns pgx.ErrNoRows when another transaction
// was quicker.
func (s *Identities) accountByAddress(ctx context.Context, tx pgx.Tx, o outsider) (dbsqlc.User, bool, error) {
	if o.email == "" {
		return dbsqlc.User{}, false, ErrNoAddress
	}
	now := s.o.Now()
	row, err := s.queries.LockUserByEmailKey(ctx, tx, emailKey(o.email))
	switch {
	case errors.Is(err, pgx.ErrNoRows) && !o.verified:
		return dbsqlc.User{}, false, ErrUnverifiedOutside
	case errors.Is(err, pgx.ErrNoRows):
		row, err = s.queries.InsertOAuthUser(ctx, tx, dbsqlc.InsertOAuthUserParams{
			FirstName: o.firstName, LastName: o.lastName, Email: o.email, EmailKey: emailKey(o.email), EmailVerifiedAt: &now, Now: now,
		})
		if db.Violates(err, "users_email_key") { // kept for the account that gave it up lately
			err = ErrLinkRequired.Because(err)
		}
		return row, true, err
	case err != nil:
		return dbsqlc.User{}, false, err
	case !o.verified:
		return dbsqlc.User{}, false, ErrLinkRequired
	case row.EmailVerifiedAt != nil:
		return row, false, nil
	}
	row, err = s.claimUnverified(ctx, tx, row)
	return row, false, err
}

// claimUnverified gives an account to the owner of its address, which whoever made
// it never proved to be theirs: what they left to come back by is void. A second
// factor is not passed over, so an account with one is linked by its holder only.
func (s *Identities) claimUnverified(ctx context.Context, tx pgx.Tx, row dbsqlc.User) (dbsqlc.User, error) {
	if err := s.voidCredentials(ctx, tx, row.ID); err != nil {
		return dbsqlc.User{}, err
	}
	guarded, err := s.queries.HasTOTP(ctx, tx, row.ID)
	if err != nil {
		return dbsqlc.User{}, err
	}
	if guarded {
		return dbsqlc.User{}, ErrLinkRequired
	}
	now := s.o.Now()
	return s.queries.ClaimUnverifiedUser(ctx, tx, &now, row.ID)
}

// voidCredentials takes away every way into an account but its password, and a second
// factor that is older than its first verified address.
func (s *core) voidCredentials(ctx context.Context, tx pgx.Tx, userID int64) error {
	now := s.o.Now()
	if _, err := s.queries.RevokeUserSessions(ctx, tx, now, userID); err != nil {
		return err
	}
	if err := s.queries.RevokeUserAPITokens(ctx, tx, &now, userID); err != nil {
		return err
	}
	if err := s.queries.DeleteUserIdentities(ctx, tx, userID); err != nil {
		return err
	}
	gone, err := s.queries.DeleteUnprovenTOTPFactor(ctx, tx, userID)
	if err != nil || gone == 0 {
		return err
	}
	return s.queries.DeleteRecoveryCodes(ctx, tx, userID)
}

func (s *Identities) newIdentity(userID int64, o outsider) dbsqlc.InsertIdentityParams {
	return dbsqlc.InsertIdentityParams{UserID: userID, Provider: o.provider, Subject: o.subject, Email: o.email, Now: s.o.Now()}
}

// ListIdentities returns an account's identities, newest first.
func (s *Identities) ListIdentities(ctx context.Context, userID int64) ([]Identity, error) {
	rows, err := s.queries.ListIdentities(ctx, s.o.DB.Direct(), userID)
	if err != nil {
		return nil, db.Translate(err)
	}
	out := make([]Identity, len(rows))
	for i, r := range rows {
		out[i] = identityFrom(r)
	}
	return out, nil
}

// LinkIdentity links the identity behind a one-time code to the signed-in account. The
// code is one that CollectOAuth would take to sign in. Linking an identity again changes
// nothing. It returns ErrReauthenticate, ErrEmailUnverified, oauth.ErrCode or
// ErrIdentityTaken.
func (s *Identities) LinkIdentity(ctx context.Context, userID int64, code, verifier string) (Identity, error) {
	if err := s.requireRecent(ctx); err != nil {
		return Identity{}, err
	}
	var linked dbsqlc.Identity
	err := s.o.DB.InTx(ctx, identity.FromContext(ctx), func(ctx context.Context, tx pgx.Tx) error {
		if err := s.lockVerified(ctx, tx, userID); err != nil {
			return err
		}
		o, err := s.spendOutcome(ctx, tx, code, verifier)
		if err != nil {
			return err
		}
		linked, err = s.queries.InsertIdentity(ctx, tx, s.newIdentity(userID, o))
		if err == nil {
			return s.tellIdentityOf(ctx, tx, userID, o.provider, "linked to your account")
		}
		if !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		linked, err = s.queries.UseIdentity(ctx, tx, dbsqlc.UseIdentityParams{Provider: o.provider, Subject: o.subject, Email: o.email, Now: s.o.Now()})
		if err == nil && linked.UserID != userID {
			return ErrIdentityTaken
		}
		return db.NotFound(err, ErrBusy) // unlinked at this moment
	})
	if err != nil {
		return Identity{}, err
	}
	return identityFrom(linked), nil
}

// UnlinkIdentity takes an identity from an account. It returns ErrMissingIdentity,
// or ErrLastIdentity when nothing would be left to sign in with.
func (s *Identities) UnlinkIdentity(ctx context.Context, userID, id int64) error {
	return s.o.DB.InTx(ctx, identity.FromContext(ctx), func(ctx context.Context, tx pgx.Tx) error {
		// The lock keeps two from each unlinking the other's last.
		row, err := s.queries.LockUser(ctx, tx, userID)
		if err != nil {
			return db.NotFound(err, ErrSessionRevoked)
		}
		provider, err := s.queries.DeleteIdentity(ctx, tx, id, userID)
		if err != nil {
			return db.NotFound(err, ErrMissingIdentity)
		}
		if row.PasswordHash == "" {
			left, err := s.queries.CountIdentities(ctx, tx, userID)
			if err != nil {
				return err
			}
			if left == 0 {
				return ErrLastIdentity
			}
		}
		return s.tellIdentity(ctx, tx, row, provider, "unlinked from your account")
	})
}

// challengeOf is S256 of RFC 7636 section 4.2.
func challengeOf(verifier string) string {
	sum := sha256.Sum256([]byte(verifier))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}
