package token

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/lestrrat-go/jwx/v2/jwt"

	"github.com/waypost/waypost/internal/fault"
)

// ChallengeTTL is how long a sign-in may wait for its second factor.
const ChallengeTTL = 5 * time.Minute

// ErrChallenge says that a challenge token is no good, or is no more.
var ErrChallenge = fault.New(fault.Unauthenticated, "mfa_token_invalid", "This sign-in has expired or never existed. Start again with the first step.")

// challengeType keeps challenge tokens and access tokens from passing for each
// other (RFC 8725 section 3.11).
const challengeType = "mfa+jwt"

const (
	claimFirst   = "amr"
	claimVersion = "ver"
)

// Challenge is a sign-in whose first factor was right.
type Challenge struct {
	UserID int64
	// First is how the first factor was proved.
	First string
	// Version changes when the account's credentials do, which voids the challenge.
	Version string
}

// IssueChallenge signs a challenge token that is good for ChallengeTTL from now.
func (s *Service) IssueChallenge(c Challenge) (string, error) {
	b, err := s.builder(c.UserID, ChallengeTTL)
	if err != nil {
		return "", err
	}
	b.Claim(claimFirst, c.First).Claim(claimVersion, c.Version)
	return s.build(b, challengeType)
}

// VerifyChallenge returns what a challenge token of ours says, as VerifyAccess
// does. It returns ErrChallenge.
func (s *Service) VerifyChallenge(ctx context.Context, raw string) (Challenge, error) {
	payload, err := s.verifySignature(ctx, raw, challengeType)
	if err != nil {
		return Challenge{}, ErrChallenge.Because(err)
	}
	t := jwt.New()
	if err := json.Unmarshal(payload, t); err != nil {
		return Challenge{}, ErrChallenge.Because(err)
	}
	userID, err := s.validate(t)
	if err != nil {
		return Challenge{}, ErrChallenge.Because(err)
	}
	c := Challenge{UserID: userID, First: text(t, claimFirst), Version: text(t, claimVersion)}
	if c.First == "" || c.Version == "" {
		return Challenge{}, ErrChallenge.Because(errors.New("incomplete"))
	}
	return c, nil
}
