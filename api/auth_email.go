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
		Summary:     "Change your e-mail address",
		Description: "Mail a link to the new address. The account keeps its current address until the link is used, within a day and while this session lasts. The answer is the same if " +
			"another account has the address. A new request replaces a pending one; requesting the current address cancels it. Requires a sign-in within the last 15 minutes. At " +
			"most 10 requests per account and 60 per network address in an hour.",
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
		Summary:     "Confirm an e-mail change",
		Description: "Redeem the code mailed to the new address and switch the account to it. If the old address was verified, it gets a link that undoes the change, and stays reserved for seven days.",
	}, func(ctx context.Context, token string) error { return s.ConfirmEmail(ctx, token) }, "This is your address now.", account.ErrLinkInvalid, account.ErrEmailTaken)

	registerEmailCode(a, huma.Operation{
		OperationID: "undo-email-change",
		Path:        "/api/auth/email/undo",
		Summary:     "Undo an e-mail change",
		Description: "Redeem the code mailed to the old address, within seven days of the change. Restores that address, ends all sessions and API tokens, voids the password, removes " +
			"recently added identities and second factors, and mails a link for setting a new password.",
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
