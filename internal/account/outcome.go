package account

import (
	"errors"

	"github.com/waypost/waypost/internal/throttle"
	"github.com/waypost/waypost/internal/token"
)

// Outcome is how one try to sign in ended, for who counts them.
type Outcome string

// The outcomes. A right password of an account that wants a second factor is none yet.
const (
	SignedInWell    Outcome = "signed_in"
	PasswordWrong   Outcome = "wrong_password"
	AccountUnknown  Outcome = "unknown_account"
	CodeWrong       Outcome = "wrong_code"
	AccountInactive Outcome = "inactive"
	Throttled       Outcome = "throttled"
	TooBusy         Outcome = "busy"
	RefreshReused   Outcome = "refresh_reused"
)

// tell tells Options.Told how a try ended. What failed for other reasons, such as a
// database that is away, is no answer to who tried. known says that the account exists.
func (s *core) tell(signed SignedIn, known bool, err error) {
	var o Outcome
	switch {
	case err == nil && signed.MFA != nil:
		return
	case err == nil:
		o = SignedInWell
	case errors.Is(err, throttle.ErrLimited):
		o = Throttled
	case errors.Is(err, ErrInvalidCredentials) && !known:
		o = AccountUnknown
	case errors.Is(err, ErrInvalidCredentials):
		o = PasswordWrong
	case errors.Is(err, ErrTOTPInvalid), errors.Is(err, token.ErrChallenge):
		o = CodeWrong
	case errors.Is(err, ErrInactive):
		o = AccountInactive
	case errors.Is(err, ErrBusy):
		o = TooBusy
	default:
		return
	}
	s.o.Told(o)
}
