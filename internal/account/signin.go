package account

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/throttle"
)

// SignedIn is the result of a sign-in: the tokens of a new session or, when MFA is
// set, only the challenge to prove a second factor.
type SignedIn struct {
	User        User
	AccessToken string
	ExpiresIn   time.Duration
	// RefreshToken is opaque and can be used once; only its SHA-256 is stored.
	RefreshToken string
	// MFA is set when the account needs a second factor. Then AccessToken, ExpiresIn and
	// RefreshToken are empty, and no session exists.
	MFA *Challenge

	visit Visit
}

// Challenge is the result of a right first factor, when a second factor is still
// missing.
type Challenge struct {
	// Token identifies this sign-in to the operation that takes the second factor, and
	// is of no other use.
	Token     string
	ExpiresIn time.Duration
	// Methods are the accepted second factors, such as "totp".
	Methods []string
}

// Method is a way to prove who one is, in the words of RFC 8176.
type Method string

// The methods. A session keeps those by which it was opened.
const (
	ByPassword Method = "pwd"
	ByTOTP     Method = "otp"
	ByRecovery Method = "recovery" // a recovery code; RFC 8176 has no word for it
	ByOAuth    Method = "fed"      // another provider vouched; RFC 8176 has no word for it
)

var errNoTokens = errors.New("account: made without Options.Tokens, so nobody can sign in")

// SignIns signs people in, with a password and a second factor.
type SignIns struct {
	*core
	// open stores a new session, opened by methods, and what its holder gets for it.
	open   func(ctx context.Context, tx pgx.Tx, row dbsqlc.User, methods ...Method) (SignedIn, error)
	factor *SecondFactor
}

// SignIn checks an e-mail address and a password and opens a session. An unknown
// address costs the same work, and gets the same ErrInvalidCredentials, as a
// wrong password. It returns ErrInactive, only to who knows the password,
// throttle.ErrLimited, ErrBusy, or a validation fault for a password too long to
// be one.
func (s *SignIns) SignIn(ctx context.Context, email, password string) (SignedIn, error) {
	signed, known, err := s.signIn(ctx, email, password)
	s.tell(signed, known, err)
	return signed, err
}

// signIn also returns whether there is such an account, which only Options.Told may hear.
func (s *SignIns) signIn(ctx context.Context, email, password string) (SignedIn, bool, error) {
	if utf8.RuneCountInString(password) > MaxPassword {
		return SignedIn{}, false, fault.Validation(map[string]string{"password": fmt.Sprintf("Must have at most %d characters.", MaxPassword)})
	}
	if err := s.readyToSign(ctx); err != nil {
		return SignedIn{}, false, err
	}
	row, try, right, err := s.checkPassword(ctx, email, password)
	known := row.ID != 0
	if err != nil {
		return SignedIn{}, known, err
	}
	if !right {
		return SignedIn{}, known, s.failed(ctx, row.ID, try)
	}
	if err := s.pass(ctx, try.streaks(), try.right); err != nil {
		return SignedIn{}, known, err
	}
	signed, err := s.firstFactorPassed(ctx, row, ByPassword)
	return signed, known, err
}

// checkPassword returns the account with that address, the zero value where there is
// none, the keys of this attempt, and whether the password is right. All of it happens
// in one of the places for hashes, so that a flood waits, or is refused, before it
// takes the database's time. It returns throttle.ErrLimited or ErrBusy.
func (s *SignIns) checkPassword(ctx context.Context, email, password string) (dbsqlc.User, attempt, bool, error) {
	place, err := s.hasher.enter(ctx, payersOf(ctx, email))
	if err != nil {
		return dbsqlc.User{}, attempt{}, false, err
	}
	defer place.leave()
	row, err := s.findByEmail(ctx, email)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return row, attempt{}, false, db.Translate(err)
	}
	atHome, err := s.isHome(ctx, row.ID)
	if err != nil {
		return row, attempt{}, false, err
	}
	try := attemptOf(ctx, email, atHome)
	if err := s.limits.Check(ctx, slices.Concat(try.gate, try.right)...); err != nil {
		if errors.Is(err, throttle.ErrLimited) {
			err = errors.Join(err, s.noteThrottled(ctx, row.ID))
		}
		return row, try, false, err
	}
	hash := row.PasswordHash
	unknown := hash == "" // no such account, or one that has no password
	if unknown {
		hash = s.hasher.decoy
	}
	matches, err := place.verify(password, hash)
	return row, try, matches && !unknown, err
}

// failed counts an attempt that failed and returns its answer. Of attempts at once
// those over the limit are not even told that they were wrong.
func (s *SignIns) failed(ctx context.Context, userID int64, try attempt) error {
	if err := s.countRefusal(ctx, userID, wrongPassword, try.gate, try.also...); err != nil {
		return err
	}
	return ErrInvalidCredentials
}

// firstFactorPassed goes on with the sign-in of an account that proved its first
// factor: it hands out a challenge where a second is wanted, and otherwise opens the
// session. It returns ErrInactive, or what openSessionTx returns.
func (s *SignIns) firstFactorPassed(ctx context.Context, row dbsqlc.User, first Method) (SignedIn, error) {
	if !row.Active {
		return SignedIn{}, ErrInactive
	}
	c, err := s.factor.challenge(ctx, row, first)
	if err != nil {
		return SignedIn{}, err
	}
	if c != nil {
		return SignedIn{User: fromRow(row), MFA: c}, nil
	}
	p := identity.Account(row.ID, identity.Role(row.Role), "").From(identity.FromContext(ctx))
	var signed SignedIn
	err = s.o.DB.InTx(ctx, p, func(ctx context.Context, tx pgx.Tx) error {
		var err error
		if signed, err = s.open(ctx, tx, row, first); err != nil {
			return err
		}
		return s.factor.withoutTOTP(ctx, tx, row.ID)
	})
	if err != nil {
		return SignedIn{}, err
	}
	return signed, nil
}

func texts[T ~string](list []T) []string {
	out := make([]string, len(list))
	for i, v := range list {
		out[i] = string(v)
	}
	return out
}
