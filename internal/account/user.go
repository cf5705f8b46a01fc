package account

import (
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
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

	emailKey string
}

// NewUser is what Create needs.
type NewUser struct {
	FirstName string
	LastName  string
	Email     string
	Password  string
	Role      identity.Role // empty for identity.User
}

func (n NewUser) validate() error {
	details := map[string]string{}
	for field, v := range map[string]string{"first_name": n.FirstName, "last_name": n.LastName} {
		if !within(v, MinName, MaxName) {
			details[field] = fmt.Sprintf("Needs %d to %d characters.", MinName, MaxName)
		}
	}
	if !validEmail(n.Email) {
		details["email"] = fmt.Sprintf("Must be one e-mail address of at most %d characters.", MaxEmail)
	}
	if !within(n.Password, MinPassword, MaxPassword) {
		details["password"] = passwordRule
	}
	if !n.Role.Valid() {
		details["role"] = roleRule
	}
	if len(details) > 0 {
		return fault.Validation(details)
	}
	return nil
}

// within says that s is storable text of least to most characters.
func within(s string, least, most int) bool {
	n := utf8.RuneCountInString(s)
	return storable(s) && n >= least && n <= most
}

func fromRow(r dbsqlc.User) User {
	return User{
		ID: r.ID, FirstName: r.FirstName, LastName: r.LastName, Email: r.Email,
		Role: identity.Role(r.Role), Active: r.Active,
		CreatedAt: r.CreatedAt.UTC(), UpdatedAt: r.UpdatedAt.UTC(),
		emailKey: r.EmailKey,
	}
}
