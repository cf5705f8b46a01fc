package account

import (
	"fmt"
	"strings"
	"time"

	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/account/commonpassword"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/text"
)

// Bounds of an account's fields, in characters.
const (
	MinName     = 2
	MaxName     = 100
	MaxEmail    = 254
	MinPassword = 8
	MaxPassword = 128
)

const roleRule = "Must be ADMIN, EDITOR or USER."

const commonRule = "Is one that attackers try first; choose a less common one."

var emailRule = fmt.Sprintf("Must be one e-mail address of at most %d characters.", MaxEmail)

var passwordRule = fmt.Sprintf("Needs %d to %d characters.", MinPassword, MaxPassword)

// User is an account. Its password's hash never leaves this package.
type User struct {
	ID        int64
	FirstName string
	LastName  string
	Email     string
	Role      identity.Role
	Active    bool
	CreatedAt time.Time
	UpdatedAt time.Time
	// EmailVerified says that the account's holder proved to receive mail at Email.
	EmailVerified bool

	emailKey string
}

// NewUser is what Create needs.
type NewUser struct {
	FirstName string
	LastName  string
	Email     string
	Password  string
	Role      identity.Role // empty for identity.User
	// AllowCommonPassword also accepts passwords that attackers try first. It is only
	// for a developer's own machine.
	AllowCommonPassword bool
}

func (n NewUser) normalized() NewUser {
	n.Email = strings.TrimSpace(n.Email)
	n.FirstName, n.LastName = text.Trim(n.FirstName), text.Trim(n.LastName)
	if n.Role == "" {
		n.Role = identity.User
	}
	return n
}

// CheckProfile is what Create would say of all but the password, so that who asks for one
// can say it first.
func (n NewUser) CheckProfile() error { return problems(n.normalized().profileProblems()) }

func (n NewUser) validate() error {
	details := n.profileProblems()
	if rule := passwordProblem(n.Password, n.Email); rule != "" && (rule != commonRule || !n.AllowCommonPassword) {
		details["password"] = rule
	}
	return problems(details)
}

func (n NewUser) profileProblems() map[string]string {
	details := map[string]string{}
	for field, v := range map[string]string{"first_name": n.FirstName, "last_name": n.LastName} {
		switch {
		case !text.Within(v, MinName, MaxName) || text.Blank(v):
			details[field] = fmt.Sprintf("Needs %d to %d characters.", MinName, MaxName)
		case !text.IsLine(v):
			details[field] = text.LineRule
		}
	}
	if !validEmail(n.Email) {
		details["email"] = emailRule
	}
	if !n.Role.Valid() {
		details["role"] = roleRule
	}
	return details
}

// problems makes a validation fault of details, nil when there are none.
func problems(details map[string]string) error {
	if len(details) == 0 {
		return nil
	}
	return fault.Validation(details)
}

// passwordProblem says what is wrong with a new password of the account with that
// address, "" when nothing is.
func passwordProblem(password, email string) string {
	switch {
	case !text.Within(password, MinPassword, MaxPassword):
		return passwordRule
	case commonpassword.Contains(password) || strings.EqualFold(password, email):
		return commonRule
	}
	return ""
}

func fromRow(r dbsqlc.User) User {
	return User{
		ID: r.ID, FirstName: r.FirstName, LastName: r.LastName, Email: r.Email,
		Role: identity.Role(r.Role), Active: r.Active,
		CreatedAt: r.CreatedAt.UTC(), UpdatedAt: r.UpdatedAt.UTC(),
		EmailVerified: r.EmailVerifiedAt != nil, emailKey: r.EmailKey,
	}
}
