package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/waypost/waypost/internal/account"
	"github.com/waypost/waypost/internal/apidoc/export"
	"github.com/waypost/waypost/internal/apidoc/model"
)

// EmailService lets people change their own addresses. RequestEmailChange returns
// account.ErrReauthenticate, throttle.ErrLimited or a validation fault, ConfirmEmail
// and UndoEmail account.ErrLinkInvalid, ConfirmEmail also account.ErrEmailTaken.
type EmailService interface {
	RequestEmailChange(ctx context.Context, email string) error
	ConfirmEmail(ctx context.Context, token string) error
	UndoEmail(ctx context.Context, token string) error
}

// EmailChange is the body that asks for another address.
type EmailChange struct {
	Email string `json:"email" model:"required,email" doc:"The address that you want." example:"ada@example.org"`
}

// EmailCode is the body that confirms a change of the address, or takes it back.
type EmailCode struct {
	Token string `json:"token" model:"required,min=1,max=200" doc:"The code from the mailed link." example:"wpml_b3BhcXVl"`
}

func registerEmailChanges(a huma.API, s EmailService) {
	huma.Register(a, exported(access(huma.Operation{
		OperationID: "change-email",
		Method:      http.MethodPost,
		Path:        "/api/auth/email/change",
		Summary:     "Ask for another e-mail address",
		Description: "Mails a link to the address; the account keeps its present one until the link is used, within a day and while the session that asked lasts. " +
			"The answer is the same whoever has the address. Asking again replaces a change that waits; asking for the present address cancels it. " +
			"Needs a sign-in within the last 15 minutes. An account can ask ten times in an hour, taken addresses included, and one network address 60 times.",
		DefaultStatus: http.StatusAccepted,
	}, inPerson().forPeople(signingIn), account.ErrReauthenticate, errThrottled), export.Variant{
		Order: orderChangeEmail, Credential: memberToken, Body: anAddress(),
	}), func(ctx context.Context, in *struct{ Body model.Request[EmailChange] }) (*doneOutput, error) {
		if err := s.RequestEmailChange(ctx, in.Body.Value().Email); err != nil {
			return nil, within("body", err)
		}
		return done("If the address can be used, a mail with a link to confirm it is on its way."), nil
	})

	registerEmailCode(a, huma.Operation{
		OperationID: "confirm-email-change",
		Path:        "/api/auth/email/confirm",
		Summary:     "Confirm another e-mail address",
		Description: "Spends the code of a link that was mailed to the address that you asked for, and gives it to the account. " +
			"If the former address was verified, it gets a link that takes the change back, and nobody else can have it for seven days.",
	}, func(ctx context.Context, token string) error { return s.ConfirmEmail(ctx, token) }, "This is your address now.", account.ErrLinkInvalid, account.ErrEmailTaken)

	registerEmailCode(a, huma.Operation{
		OperationID: "undo-email-change",
		Path:        "/api/auth/email/undo",
		Summary:     "Take a change of the e-mail address back",
		Description: "Spends the code of a link that was mailed to the former address, within seven days of the change: restores that address, " +
			"ends all sessions and API tokens, voids the password, removes identities and a second factor that were added lately, and mails a link to choose a new password.",
	}, func(ctx context.Context, token string) error { return s.UndoEmail(ctx, token) }, "The former address is restored, and everything was signed out. A mail with a link to choose a new password is on its way.", account.ErrLinkInvalid)
}

// registerEmailCode adds an operation that spends a mailed code, which is all it needs.
func registerEmailCode(a huma.API, op huma.Operation, spend func(ctx context.Context, token string) error, message string, fails ...error) {
	op.Method = http.MethodPost
	huma.Register(a, exportedWithMail(access(op, public().forPeople(signingIn), fails...)), func(ctx context.Context, in *struct {
		Body model.Request[EmailCode]
	}) (*doneOutput, error) {
		if err := spend(ctx, in.Body.Value().Token); err != nil {
			return nil, err
		}
		return done(message), nil
	})
}
