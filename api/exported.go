package api

import (
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/waypost/waypost/internal/apidoc/export"
)

// exportVariables are what people fill in before they run an exported collection;
// dev.env has the values.
func exportVariables(list resources) export.Root {
	variables := []export.Variable{
		{Name: "adminEmail", Description: "E-mail address of an administrator."},
		{Name: "adminPassword", Description: "The administrator's password."},
		{Name: "siteKey", Description: "A site's public key."},
		{Name: "siteApiKey", Description: "A secret API key of that site, with scope read."},
	}
	for _, r := range list {
		variables = append(variables, r.Variables...)
	}
	return export.Root{Variables: variables}
}

// The order of exported requests that need what others made.
const (
	orderSignIn  = -100
	orderDeliver = -30
	orderEvents  = -20
	orderReplay  = -10
	orderSite    = -5 // what a key of it reports comes in the next folder
	// After everything else, for nothing works without a session.
	orderSignOut = 1000
)

// The order of exported requests that an account of their own sends, so that
// nothing happens to the operator's: it registers, changes its password, turns its
// second factor on and off, and goes.
const (
	orderRegister = -90 + iota
	orderMemberSignIn
	orderChangeEmail
	orderChangePassword
	orderSetupTOTP
	orderEnableTOTP
	orderMemberFirstStep
	orderMemberSecondStep
	orderRecoveryCodes
	orderDisableTOTP
	orderMemberSessions
)

// orderErase is after all accounts but the exports' own are gone.
const orderErase = 200

const (
	orderEndSession = 900 + iota
	orderEndSessions
	orderDeleteMember
)

// What that account signs in with, before and after the change.
const (
	memberPassword    = "correct horse battery staple"
	memberNewPassword = "a newer horse battery staple"
)

// Variables with what operations need in place of the administrator's access token
// and of the demo site's key for reading.
const (
	memberToken       = "memberToken"
	ingestKeyVariable = "ingestKey"
)

// exported says how op is requested in exports: by one request or, each with a
// name, by several.
func exported(op huma.Operation, requests ...export.Variant) huma.Operation {
	if op.Extensions == nil {
		op.Extensions = map[string]any{}
	}
	h := export.Hints{Variants: requests}
	if len(requests) == 1 {
		h = export.Hints{Variant: requests[0]}
	}
	op.Extensions[export.Extension] = h
	return op
}

// exportedByID is for operations on what an earlier request made.
func exportedByID(op huma.Operation, id string) huma.Operation {
	return exported(op, export.Variant{Parameters: map[string]string{"id": "{{" + id + "}}"}})
}

// exportedWithMail is for operations on a code that only a mail has: of the example,
// the service can only say that it is no good.
func exportedWithMail(op huma.Operation) huma.Operation {
	return exported(op, export.Variant{Status: []int{http.StatusOK, http.StatusBadRequest}})
}

// exportedSignIns are the administrator's, which most requests need, and those of
// the account that registered: by password, and with two-factor authentication on.
func exportedSignIns() []export.Variant {
	return []export.Variant{
		{
			Name: "administrator", Summary: "Sign in", Order: orderSignIn,
			Body:    map[string]any{"email": "{{adminEmail}}", "password": "{{adminPassword}}"},
			Capture: map[string]string{"accessToken": "/data/access_token", "refreshToken": "/data/refresh_token"},
		},
		{
			Name: "member", Summary: "Sign in as the new account", Order: orderMemberSignIn,
			Body:    map[string]any{"email": "{{memberEmail}}", "password": memberPassword},
			Capture: map[string]string{memberToken: "/data/access_token"},
		},
		{
			Name: "member-first-step", Summary: "Sign in as the new account, first step", Order: orderMemberFirstStep, Optional: true,
			Body:    map[string]any{"email": "{{memberEmail}}", "password": memberNewPassword},
			Capture: map[string]string{"mfaToken": "/data/mfa_token", memberToken: "/data/access_token"},
		},
	}
}
