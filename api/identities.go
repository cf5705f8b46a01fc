package api

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/waypost/waypost/internal/account"
	"github.com/waypost/waypost/internal/account/oauth"
	"github.com/waypost/waypost/internal/apidoc/export"
	"github.com/waypost/waypost/internal/apidoc/model"
	"github.com/waypost/waypost/internal/identity"
)

// IdentityService keeps who an account's holder is at outside providers. Its
// methods return the faults that the operations below declare.
type IdentityService interface {
	ListIdentities(ctx context.Context, userID int64) ([]account.Identity, error)
	LinkIdentity(ctx context.Context, userID int64, code, verifier string) (account.Identity, error)
	UnlinkIdentity(ctx context.Context, userID, id int64) error
}

// Identity is who an account's holder is at an outside provider.
type Identity struct {
	ID         uint64    `json:"id" doc:"Assigned by the server." example:"1"`
	Provider   string    `json:"provider" doc:"The provider's name." example:"google"`
	Email      string    `json:"email" doc:"The e-mail address that the provider gave last; empty when it gave none." example:"ada@example.com"`
	CreatedAt  time.Time `json:"created_at" doc:"When the identity was linked." example:"2026-01-02T15:04:05Z"`
	LastUsedAt time.Time `json:"last_used_at" doc:"When the identity was last used to sign in." example:"2026-01-02T15:04:05Z"`
}

func toIdentity(i account.Identity) Identity {
	return Identity{ID: uint64(i.ID), Provider: i.Provider, Email: i.Email, CreatedAt: i.CreatedAt, LastUsedAt: i.LastUsedAt}
}

type listIdentitiesOutput struct {
	Body list[Identity]
}

type linkedIdentityOutput struct {
	Location string `header:"Location" doc:"The path of the identity; DELETE unlinks it." example:"/api/auth/identities/1"`
	Body     single[Identity]
}

type identityInput struct {
	ID int64 `path:"id" minimum:"1" maximum:"9007199254740991" doc:"The identity's id." example:"1"`
}

func registerIdentities(a huma.API, s IdentityService) {
	huma.Register(a, access(huma.Operation{
		OperationID: "list-identities",
		Method:      http.MethodGet,
		Path:        "/api/auth/identities",
		Summary:     "List linked identities",
		Description: "The accounts at providers that can sign in to yours, newest first, on one page.",
	}, inPerson()), func(ctx context.Context, _ *struct{}) (*listIdentitiesOutput, error) {
		all, err := s.ListIdentities(ctx, identity.FromContext(ctx).UserID)
		if err != nil {
			return nil, err
		}
		return &listIdentitiesOutput{Body: newWhole(all, toIdentity)}, nil
	})

	huma.Register(a, exported(access(huma.Operation{
		OperationID: "link-identity",
		Method:      http.MethodPost,
		Path:        "/api/auth/identities",
		Summary:     "Link an identity",
		Description: "Link a Google or GitHub account to yours. Send the one-time code that a sign-in returned to `redirect_to`, instead of exchanging it for tokens. Requires a sign-in " +
			"within the last 15 minutes and a verified e-mail address.",
		DefaultStatus: http.StatusCreated,
	}, inPerson().forPeople(signingIn), account.ErrReauthenticate, account.ErrEmailUnverified, oauth.ErrCode, account.ErrIdentityTaken, account.ErrBusy), export.Variant{Status: []int{http.StatusCreated, http.StatusBadRequest}}),
		func(ctx context.Context, in *struct{ Body model.Request[OAuthCode] }) (*linkedIdentityOutput, error) {
			c := in.Body.Value()
			linked, err := s.LinkIdentity(ctx, identity.FromContext(ctx).UserID, c.Code, c.Verifier)
			if err != nil {
				return nil, err
			}
			return &linkedIdentityOutput{
				Location: fmt.Sprintf("/api/auth/identities/%d", linked.ID),
				Body:     single[Identity]{Data: toIdentity(linked), Message: "Linked."},
			}, nil
		})

	huma.Register(a, exported(access(huma.Operation{
		OperationID:   "unlink-identity",
		Method:        http.MethodDelete,
		Path:          "/api/auth/identities/{id}",
		Summary:       "Unlink an identity",
		Description:   "The identity can no longer sign in to your account. The last way to sign in can't be removed.",
		DefaultStatus: http.StatusNoContent,
	}, inPerson().ofHolder().forPeople(signingIn), account.ErrMissingIdentity, account.ErrLastIdentity), export.Variant{Status: []int{http.StatusNoContent, http.StatusNotFound}}),
		func(ctx context.Context, in *identityInput) (*struct{}, error) {
			return nil, s.UnlinkIdentity(ctx, identity.FromContext(ctx).UserID, in.ID)
		})
}
