package api

import (
	"time"

	"github.com/waypost/waypost/internal/account"
)

// User is an account as clients see it.
type User struct {
	ID        uint64 `json:"id" model:"primary" doc:"Assigned by the server." example:"1"`
	FirstName string `json:"first_name" model:"required,line,nonblank,min=2,max=100" doc:"Given name." example:"Ada"`
	LastName  string `json:"last_name" model:"required,line,nonblank,min=2,max=100" doc:"Family name." example:"Lovelace"`
	Email     string `json:"email" model:"required,email,unique" doc:"Sign-in name; case makes no difference." example:"ada@example.com"`
	// Password is part of the model and of no variant of it: it is set by
	// operations of its own and leaves the service in no form.
	Password  string    `json:"-"`
	Role      string    `json:"role" model:"oneof=ADMIN EDITOR USER,default=USER" doc:"The role decides which operations the account may call." example:"USER"`
	Active    bool      `json:"active" model:"default=true" doc:"A deactivated account can't sign in, and its sessions end at once." example:"true"`
	CreatedAt time.Time `json:"created_at" model:"auto" doc:"When the account was created." example:"2026-01-02T15:04:05Z"`
	UpdatedAt time.Time `json:"updated_at" model:"auto" doc:"When the account last changed." example:"2026-01-02T15:04:05Z"`
}

func toUser(u account.User) User {
	return User{
		ID: uint64(u.ID), FirstName: u.FirstName, LastName: u.LastName, Email: u.Email,
		Role: string(u.Role), Active: u.Active, CreatedAt: u.CreatedAt, UpdatedAt: u.UpdatedAt,
	}
}
