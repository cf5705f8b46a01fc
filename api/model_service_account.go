package api

import (
	"time"

	"github.com/waypost/waypost/internal/account"
)

// ServiceAccount is the account of a bot, as administrators see it.
type ServiceAccount struct {
	ID        uint64    `json:"id" model:"primary" doc:"Assigned by the server. What the account writes has it as its author." example:"12"`
	Name      string    `json:"name" model:"required,line,nonblank,min=1,max=100" doc:"What the bot does." example:"Nightly export"`
	Role      string    `json:"role" model:"oneof=ADMIN EDITOR USER,default=USER" doc:"The role decides which operations the account may call." example:"EDITOR"`
	Active    bool      `json:"active" model:"default=true" doc:"The tokens of a deactivated account don't work." example:"true"`
	CreatedAt time.Time `json:"created_at" model:"auto" doc:"When the account was created." example:"2026-01-02T15:04:05Z"`
}

func toServiceAccount(s account.ServiceAccount) ServiceAccount {
	return ServiceAccount{ID: uint64(s.ID), Name: s.Name, Role: string(s.Role), Active: s.Active, CreatedAt: s.CreatedAt}
}
