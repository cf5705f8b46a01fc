package api

import (
	"context"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/waypost/waypost/internal/account"
	"github.com/waypost/waypost/internal/apidoc/export"
	"github.com/waypost/waypost/internal/apidoc/model"
)

// Registrar lets people make and keep their own accounts. All methods return
// validation faults; Register returns account.ErrEmailTaken, Register,
// RequestVerification and RequestPasswordReset throttle.ErrLimited, ResetPassword
// and VerifyEmail account.ErrLinkInvalid, VerifyEmail also
// account.ErrPasswordRequired, account.ErrInvalidCredentials and throttle.ErrLimited,
// ChangePassword account.ErrReauthenticate.
type Registrar interface {
	Register(ctx context.Context, n account.NewUser) (account.User, error)
	VerifyEmail(ctx context.Context, v account.Verification) error
	RequestVerification(ctx context.Context, email string) error
	RequestPasswordReset(ctx context.Context, email string) error
	ResetPassword(ctx context.Context, token, password string) error
	ChangePassword(ctx context.Context, current, next string) error
}

// Registration is the body of a registration.
type Registration struct {
	FirstName string `json:"first_name" model:"required,line,nonblank,min=2,max=100" doc:"Given name." example:"Ada"`
	LastName  string `json:"last_name" model:"required,line,nonblank,min=2,max=100" doc:"Family name." example:"Lovelace"`
	Email     string `json:"email" model:"required,email,unique" doc:"Sign-in name; case makes no difference." example:"ada@example.com"`
	Password  string `json:"password" model:"required,min=8,max=128" doc:"Passwords that attackers try first are refused." example:"correct horse battery staple"`
}

// EmailVerification is the body that verifies an address.
type EmailVerification struct {
	Token       string `json:"token" model:"required,min=1,max=200" doc:"The code from the mailed link." example:"wpml_b3BhcXVl"`
	Password    string `json:"password" model:"min=1,max=128" doc:"The account's password, unless you are signed in to it: everything stays as it is." example:"correct horse battery staple"`
	NewPassword string `json:"new_password" model:"min=8,max=128,alternative" doc:"A new password instead of the account's: everything older ends. Passwords that attackers try first are refused." example:"a newer horse battery staple"`
}

// VerificationRequest is the body that asks for another link.
type VerificationRequest struct {
	Email string `json:"email" model:"required,email" doc:"The address to verify." example:"ada@example.com"`
}

// ForgottenPassword is the body that asks for a reset.
type ForgottenPassword struct {
	Email string `json:"email" model:"required,email" doc:"The account's address." example:"ada@example.com"`
}

// PasswordReset is the body that sets a forgotten password.
type PasswordReset struct {
	Token    string `json:"token" model:"required,min=1,max=200" doc:"The code from the mailed link." example:"wpml_b3BhcXVl"`
	Password string `json:"password" model:"required,min=8,max=128" doc:"The new password. Passwords that attackers try first are refused." example:"correct horse battery staple"`
}

// PasswordChange is the body that changes a password.
type PasswordChange struct {
	CurrentPassword string `json:"current_password" model:"required,min=1,max=128" doc:"The current password." example:"correct horse battery staple"`
	NewPassword     string `json:"new_password" model:"required,min=8,max=128" doc:"The new password. Passwords that attackers try first are refused." example:"a newer horse battery staple"`
}

// nothing is the data of an answer that only says that something was done.
type nothing struct{}

type doneOutput struct {
	Body single[nothing]
}

func done(message string) *doneOutput {
	return &doneOutput{Body: single[nothing]{Message: message}}
}

type createdUserOutput struct {
	Location string `header:"Location" doc:"The path of the new account." example:"/api/users/7"`
	Body     single[User]
}

func createdUser(u account.User, message string) *createdUserOutput {
	return &createdUserOutput{
		Location: "/api/users/" + strconv.FormatInt(u.ID, 10),
		Body:     single[User]{Data: toUser(u), Message: message},
	}
}

func registerRegistration(a huma.API, s Registrar) {
	registerVerification(a, s)
	huma.Register(a, exported(access(huma.Operation{
		OperationID:   "register-user",
		Method:        http.MethodPost,
		Path:          "/api/auth/register",
		Summary:       "Register an account",
		Description:   "Create an account with role `USER` and mail a link that verifies its address. The account can sign in before that. At most 60 registrations per network address in an hour.",
		DefaultStatus: http.StatusCreated,
	}, public().forPeople(signingIn), account.ErrEmailTaken, errThrottled, account.ErrBusy), export.Variant{
		Order:   orderRegister,
		Body:    map[string]any{"email": "ada+{{$guid}}@example.com", "password": memberPassword},
		Capture: map[string]string{"memberId": "/data/id", "memberEmail": "/data/email"},
	}), func(ctx context.Context, in *struct{ Body model.Request[Registration] }) (*createdUserOutput, error) {
		r := in.Body.Value()
		u, err := s.Register(ctx, account.NewUser{FirstName: r.FirstName, LastName: r.LastName, Email: r.Email, Password: r.Password})
		if err != nil {
			return nil, within("body", err)
		}
		return createdUser(u, "Welcome. A mail with a link to verify your address is on its way."), nil
	})
}

func registerVerification(a huma.API, s Registrar) {
	huma.Register(a, exportedWithMail(access(huma.Operation{
		OperationID: "verify-email",
		Method:      http.MethodPost,
		Path:        "/api/auth/verify-email",
		Summary:     "Verify an e-mail address",
		Description: "Redeem the code of a mailed link. It works once, and only while the account has that address. Somebody else may have registered the account, so prove that it is " +
			"yours: send the code with an access token of the account or with its `password`, and nothing else changes; or take it over with a `new_password`, which ends all " +
			"older sessions, API tokens, linked identities and the old password. Without any of these the answer is `password_required`. Failures don't use up the code.",
	}, anybody().ofOneself().whileEnrolling().forPeople(signingIn), account.ErrLinkInvalid, account.ErrPasswordRequired, account.ErrInvalidCredentials, errThrottled, account.ErrBusy)), func(ctx context.Context, in *struct {
		Body model.Request[EmailVerification]
	}) (*doneOutput, error) {
		v := in.Body.Value()
		if err := s.VerifyEmail(ctx, account.Verification{Secret: v.Token, Password: v.Password, NewPassword: v.NewPassword}); err != nil {
			return nil, within("body", err)
		}
		return done("Your address is verified."), nil
	})

	huma.Register(a, access(huma.Operation{
		OperationID: "resend-verification-mail",
		Method:      http.MethodPost,
		Path:        "/api/auth/verify-email/resend",
		Summary:     "Resend the verification mail",
		Description: "Mail another link if an active account with this unverified address exists. The answer is the same if not. At most 5 such mails per account and 60 per network address in an hour.",
	}, public().forPeople(signingIn), errThrottled), func(ctx context.Context, in *struct {
		Body model.Request[VerificationRequest]
	}) (*doneOutput, error) {
		if err := s.RequestVerification(ctx, in.Body.Value().Email); err != nil {
			return nil, within("body", err)
		}
		return done("If there is an account with that address to verify, a mail is on its way."), nil
	})
}

func registerPasswords(a huma.API, s Registrar) {
	huma.Register(a, exported(access(huma.Operation{
		OperationID: "request-password-reset",
		Method:      http.MethodPost,
		Path:        "/api/auth/password/forgot",
		Summary:     "Request a password reset",
		Description: "Mail a link if an active account with this address exists. The answer is the same if not.",
	}, public().forPeople(signingIn), errThrottled), export.Variant{Body: map[string]any{"email": "{{memberEmail}}"}}), func(ctx context.Context, in *struct {
		Body model.Request[ForgottenPassword]
	}) (*doneOutput, error) {
		if err := s.RequestPasswordReset(ctx, in.Body.Value().Email); err != nil {
			return nil, within("body", err)
		}
		return done("If there is an account with that address, a mail is on its way."), nil
	})

	huma.Register(a, exportedWithMail(access(huma.Operation{
		OperationID: "reset-password",
		Method:      http.MethodPost,
		Path:        "/api/auth/password/reset",
		Summary:     "Reset a password",
		Description: "Redeem the code of a mailed link, set the password and end all sessions. This does not sign in, and two-factor authentication stays on.",
	}, public().forPeople(signingIn), account.ErrLinkInvalid, account.ErrBusy)), func(ctx context.Context, in *struct {
		Body model.Request[PasswordReset]
	}) (*doneOutput, error) {
		r := in.Body.Value()
		if err := s.ResetPassword(ctx, r.Token, r.Password); err != nil {
			return nil, within("body", err)
		}
		return done("Your password is set. Sign in with it."), nil
	})

	huma.Register(a, exported(access(huma.Operation{
		OperationID: "change-password",
		Method:      http.MethodPost,
		Path:        "/api/auth/password/change",
		Summary:     "Change your password",
		Description: "Requires the current password. Ends all other sessions and mails a notice to the account's address.",
	}, inPerson().forPeople(signingIn), account.ErrReauthenticate, errThrottled, account.ErrBusy), export.Variant{
		Order: orderChangePassword, Credential: memberToken,
		Body: map[string]any{"current_password": memberPassword, "new_password": memberNewPassword},
	}), func(ctx context.Context, in *struct {
		Body model.Request[PasswordChange]
	}) (*doneOutput, error) {
		c := in.Body.Value()
		if err := s.ChangePassword(ctx, c.CurrentPassword, c.NewPassword); err != nil {
			return nil, within("body", err)
		}
		return done("Your password is changed, and your other sessions have ended."), nil
	})
}
