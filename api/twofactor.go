package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/waypost/waypost/internal/account"
	"github.com/waypost/waypost/internal/apidoc/export"
	"github.com/waypost/waypost/internal/apidoc/model"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/token"
)

// TwoFactorService keeps second factors. Its methods return the faults that the
// operations below declare.
type TwoFactorService interface {
	SetupTOTP(ctx context.Context, userID int64) (account.TOTPSetup, error)
	EnableTOTP(ctx context.Context, userID int64, code string) ([]string, error)
	VerifySecondFactor(ctx context.Context, challenge, code string) (account.SignedIn, error)
	DisableTOTP(ctx context.Context, userID int64, password, code string) error
	RenewRecoveryCodes(ctx context.Context, userID int64, code string) ([]string, error)
}

// TOTPCode proves that an authenticator application has the secret.
type TOTPCode struct {
	Code string `json:"code" model:"required,min=1,max=64" doc:"The six digits that the application shows now." example:"492039"`
}

// SecondFactor proves a second factor.
type SecondFactor struct {
	Code string `json:"code" model:"required,min=1,max=64" doc:"The six digits that the authenticator application shows now, or a recovery code. Spaces, hyphens and case make no difference." example:"492039"`
}

// SecondStep finishes a sign-in.
type SecondStep struct {
	MFAToken string `json:"mfa_token" model:"required,min=1,max=4096" doc:"The mfa_token from the first step's answer." example:"eyJhbGciOiJFUzI1NiIsInR5cCI6Im1mYStqd3QifQ.eyJzdWIiOiIxIn0.c2lnbmF0dXJl"`
	Code     string `json:"code" model:"required,min=1,max=64" doc:"The six digits that the authenticator application shows now, or a recovery code. Spaces, hyphens and case make no difference." example:"492039"`
}

// DisableTwoFactor gives up a second factor.
type DisableTwoFactor struct {
	Password string `json:"password" model:"max=128" doc:"The account's password. An account without one leaves it out, and must have signed in within the last 15 minutes." example:"correct horse battery staple"`
	Code     string `json:"code" model:"required,min=1,max=64" doc:"The six digits that the authenticator application shows now, or a recovery code." example:"492039"`
}

// TOTPSetup is shown once.
type TOTPSetup struct {
	Secret string `json:"secret" doc:"The secret in base32, for typing into an authenticator application: SHA-1, six digits, 30 seconds." example:"JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP"`
	URI    string `json:"otpauth_uri" doc:"The same secret as a link that opens an authenticator application." example:"otpauth://totp/Waypost:ada@example.com?algorithm=SHA1&digits=6&issuer=Waypost&period=30&secret=JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP"`
	QRCode string `json:"qr_code" doc:"The same secret as a QR code for scanning: a PNG as a data: URL." example:"data:image/png;base64,iVBORw0KGgo="`
}

// RecoveryCodes are shown once.
type RecoveryCodes struct {
	Codes []string `json:"recovery_codes" nullable:"false" doc:"Ten codes. Each works once, in place of a code of the authenticator application." example:"[\"MZXW6Y-TBOJUW4-ZZAMRQ-GK3TU5\"]"`
}

type totpSetupOutput struct {
	CacheControl string `header:"Cache-Control" doc:"The answer contains a secret, so it must not be stored." example:"no-store"`
	Body         single[TOTPSetup]
}

type recoveryCodesOutput struct {
	CacheControl string `header:"Cache-Control" doc:"The answer contains secrets, so it must not be stored." example:"no-store"`
	Body         single[RecoveryCodes]
}

func newRecoveryCodesOutput(codes []string, message string) *recoveryCodesOutput {
	return &recoveryCodesOutput{CacheControl: "no-store", Body: single[RecoveryCodes]{Data: RecoveryCodes{Codes: codes}, Message: message}}
}

func registerTwoFactor(a huma.API, s TwoFactorService) {
	huma.Register(a, exported(access(huma.Operation{
		OperationID: "setup-two-factor",
		Method:      http.MethodPost,
		Path:        "/api/auth/2fa/setup",
		Summary:     "Set up two-factor authentication",
		Description: "Create a secret for an authenticator app (RFC 6238). It takes effect when you send one of its codes to `POST /api/auth/2fa/enable`; until then another call replaces " +
			"it. Requires a sign-in within the last 15 minutes and a verified e-mail address.",
	}, inPerson().whileEnrolling().forPeople(signingIn), account.ErrReauthenticate, account.ErrEmailUnverified, account.ErrTOTPEnabled), export.Variant{
		// The account that registered can't verify its address alone.
		Status: []int{http.StatusOK, http.StatusForbidden}, Optional: true,
		Order: orderSetupTOTP, Credential: memberToken, Capture: map[string]string{"totpSecret": "/data/secret"},
	}),
		func(ctx context.Context, _ *struct{}) (*totpSetupOutput, error) {
			setup, err := s.SetupTOTP(ctx, identity.FromContext(ctx).UserID)
			if err != nil {
				return nil, err
			}
			return &totpSetupOutput{CacheControl: "no-store", Body: single[TOTPSetup]{
				Data: TOTPSetup(setup), Message: "Add it to your application, then confirm with a code.",
			}}, nil
		})

	huma.Register(a, exported(access(huma.Operation{
		OperationID: "enable-two-factor",
		Method:      http.MethodPost,
		Path:        "/api/auth/2fa/enable",
		Summary:     "Enable two-factor authentication",
		Description: "Check a first code, end the account's other sessions and return ten recovery codes.",
	}, inPerson().whileEnrolling().forPeople(signingIn), account.ErrTOTPInvalid, account.ErrTOTPNotSetUp, account.ErrTOTPEnabled, account.ErrEmailUnverified), export.Variant{
		Status: []int{http.StatusOK, http.StatusConflict}, Optional: true,
		Order: orderEnableTOTP, Credential: memberToken,
		TOTP: &export.TOTP{Secret: "totpSecret", Code: "totpCode"}, Body: map[string]any{"code": "{{totpCode}}"},
		Capture: map[string]string{"recoveryCode": "/data/recovery_codes/0", "nextRecoveryCode": "/data/recovery_codes/1"},
	}),
		func(ctx context.Context, in *struct{ Body model.Request[TOTPCode] }) (*recoveryCodesOutput, error) {
			codes, err := s.EnableTOTP(ctx, identity.FromContext(ctx).UserID, in.Body.Value().Code)
			if err != nil {
				return nil, err
			}
			return newRecoveryCodesOutput(codes, "Two-factor authentication is on. Keep these codes, but not where you keep your password."), nil
		})

	registerSecondStep(a, s)
	registerTwoFactorChanges(a, s)
}

func registerTwoFactorChanges(a huma.API, s TwoFactorService) {
	huma.Register(a, exported(access(huma.Operation{
		OperationID:   "disable-two-factor",
		Method:        http.MethodPost,
		Path:          "/api/auth/2fa/disable",
		Summary:       "Disable two-factor authentication",
		Description:   "Requires the password and a code. Voids the recovery codes. Administrators can't disable it if the service requires it of them.",
		DefaultStatus: http.StatusNoContent,
	}, inPerson().forPeople(signingIn), account.ErrReauthenticate, account.ErrTOTPInvalid, account.ErrTOTPDisabled, account.ErrTwoFactorRequired, errThrottled, account.ErrBusy), export.Variant{
		Status: []int{http.StatusNoContent, http.StatusUnprocessableEntity},
		Order:  orderDisableTOTP, Credential: memberToken,
		Body: map[string]any{"password": memberNewPassword, "code": "{{recoveryCode}}"},
	}),
		func(ctx context.Context, in *struct {
			Body model.Request[DisableTwoFactor]
		}) (*struct{}, error) {
			c := in.Body.Value()
			return nil, s.DisableTOTP(ctx, identity.FromContext(ctx).UserID, c.Password, c.Code)
		})

	huma.Register(a, exported(access(huma.Operation{
		OperationID: "renew-recovery-codes",
		Method:      http.MethodPost,
		Path:        "/api/auth/2fa/recovery-codes",
		Summary:     "Replace the recovery codes",
		Description: "Void the recovery codes and return ten new ones.",
	}, inPerson().forPeople(signingIn), account.ErrTOTPInvalid, account.ErrTOTPDisabled, errThrottled), export.Variant{
		Status: []int{http.StatusOK, http.StatusUnprocessableEntity}, Optional: true,
		Order: orderRecoveryCodes, Credential: memberToken,
		Body: map[string]any{"code": "{{nextRecoveryCode}}"}, Capture: map[string]string{"recoveryCode": "/data/recovery_codes/0"},
	}),
		func(ctx context.Context, in *struct{ Body model.Request[SecondFactor] }) (*recoveryCodesOutput, error) {
			codes, err := s.RenewRecoveryCodes(ctx, identity.FromContext(ctx).UserID, in.Body.Value().Code)
			if err != nil {
				return nil, err
			}
			return newRecoveryCodesOutput(codes, "Here are new codes. The old ones no longer work."), nil
		})
}

func registerSecondStep(a huma.API, s TwoFactorService) {
	huma.Register(a, exported(access(huma.Operation{
		OperationID: "verify-two-factor",
		Method:      http.MethodPost,
		Path:        "/api/auth/2fa/verify",
		Summary:     "Sign in with a second factor",
		Description: "Exchange the `mfa_token` of a first step and a code for a session's tokens. A code works once. Ten failures in a row, over any number of first steps, block further attempts for a while.",
	}, public().forPeople(signingIn), token.ErrChallenge, account.ErrTOTPInvalid, account.ErrInactive, errThrottled), export.Variant{
		Order: orderMemberSecondStep, Status: []int{http.StatusOK, http.StatusUnprocessableEntity}, Optional: true,
		Body:    map[string]any{"mfa_token": "{{mfaToken}}", "code": "{{recoveryCode}}"},
		Capture: map[string]string{memberToken: "/data/access_token"},
	}),
		func(ctx context.Context, in *struct{ Body model.Request[SecondStep] }) (*signInOutput, error) {
			c := in.Body.Value()
			signed, err := s.VerifySecondFactor(ctx, c.MFAToken, c.Code)
			if err != nil {
				return nil, err
			}
			return newSignInOutput(signed), nil
		})
}
