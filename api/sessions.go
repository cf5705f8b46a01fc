package api

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"github.com/waypost/waypost/internal/account"
	"github.com/waypost/waypost/internal/apidoc/export"
)

// SessionService keeps the acting account's sessions. EndSession returns
// account.ErrNoSession.
type SessionService interface {
	ListSessions(ctx context.Context, after *account.SessionPosition, limit int) ([]account.Session, error)
	CountSessions(ctx context.Context) (int64, error)
	EndSession(ctx context.Context, id uuid.UUID) error
	EndSessions(ctx context.Context) error
}

// Session is a sign-in as its account sees it.
type Session struct {
	ID         string    `json:"id" format:"uuid" doc:"The value of sid in the session's access tokens." example:"3f2c8a4e-51d7-4a0b-9c1e-6d2b7f8a9c10"`
	Current    bool      `json:"current" doc:"True for the session that sends this request." example:"true"`
	Methods    []string  `json:"methods" nullable:"false" doc:"How the session was opened: pwd (password), fed (another provider), otp (one-time code), recovery (recovery code)." example:"pwd,otp"`
	Address    string    `json:"address" doc:"The network address of the sign-in; empty when unknown." example:"203.0.113.7"`
	UserAgent  string    `json:"user_agent" doc:"The User-Agent header of the program that signed in." example:"Waypost-iOS/3.2"`
	CreatedAt  time.Time `json:"created_at" doc:"When the session was opened." example:"2026-01-02T15:04:05Z"`
	LastUsedAt time.Time `json:"last_used_at" doc:"When the session last got tokens." example:"2026-01-02T16:04:05Z"`
	ExpiresAt  time.Time `json:"expires_at" doc:"When the session ends at the latest." example:"2026-02-01T15:04:05Z"`
}

func toSession(s account.Session) Session {
	return Session{
		ID: s.ID.String(), Current: s.Current, Methods: s.Methods, Address: s.Address, UserAgent: s.UserAgent,
		CreatedAt: s.CreatedAt, LastUsedAt: s.LastUsedAt, ExpiresAt: s.ExpiresAt,
	}
}

type listSessionsOutput struct {
	CacheControl string `header:"Cache-Control" doc:"The answer must not be stored." example:"no-store"`
	Body         list[Session]
}

type sessionCursor struct {
	CreatedAt time.Time `json:"t"`
	ID        uuid.UUID `json:"i"`
}

type sessionInput struct {
	ID uuidText `path:"id" doc:"The session's id." example:"3f2c8a4e-51d7-4a0b-9c1e-6d2b7f8a9c10"`
}

func registerSessions(a huma.API, s SessionService) {
	huma.Register(a, exported(access(huma.Operation{
		OperationID: "list-sessions",
		Method:      http.MethodGet,
		Path:        "/api/auth/sessions",
		Summary:     "List your sessions",
		Description: "Your active sessions, newest first.",
	}, inPerson()),
		export.Variant{Name: "administrator", Summary: "List your sessions"},
		export.Variant{
			Name: "member", Summary: "List the new account's sessions", Order: orderMemberSessions,
			Credential: memberToken, Capture: map[string]string{"sessionId": "/data/1/id"}, // not that which asks
		},
	), func(ctx context.Context, in *struct{ Page }) (*listSessionsOutput, error) {
		var after *account.SessionPosition
		if in.Cursor != "" {
			var c sessionCursor
			if err := decodeCursor(in.Cursor, &c); err != nil {
				return nil, err
			}
			after = &account.SessionPosition{CreatedAt: c.CreatedAt, ID: c.ID}
		}
		sessions, err := s.ListSessions(ctx, after, in.Limit+1)
		if err != nil {
			return nil, err
		}
		total, err := in.count(func() (int64, error) { return s.CountSessions(ctx) })
		if err != nil {
			return nil, err
		}
		return &listSessionsOutput{CacheControl: "no-store", Body: newList(sessions, in.Limit, total, toSession, func(s account.Session) any {
			return sessionCursor{CreatedAt: s.CreatedAt, ID: s.ID}
		})}, nil
	})

	registerSessionEnds(a, s)
}

func registerSessionEnds(a huma.API, s SessionService) {
	huma.Register(a, exported(access(huma.Operation{
		OperationID:   "end-session",
		Method:        http.MethodDelete,
		Path:          "/api/auth/sessions/{id}",
		Summary:       "End one of your sessions",
		Description:   "End a session and its tokens at once. It may be the one that sends this request.",
		DefaultStatus: http.StatusNoContent,
	}, inPerson().ofHolder().whileEnrolling(), account.ErrNoSession), export.Variant{
		Order: orderEndSession, Credential: memberToken, Parameters: map[string]string{"id": "{{sessionId}}"},
	}), func(ctx context.Context, in *sessionInput) (*struct{}, error) {
		id, err := parseID(in.ID, account.ErrNoSession)
		if err != nil {
			return nil, err
		}
		return nil, s.EndSession(ctx, id)
	})

	huma.Register(a, exported(access(huma.Operation{
		OperationID:   "end-all-sessions",
		Method:        http.MethodDelete,
		Path:          "/api/auth/sessions",
		Summary:       "End all your sessions",
		Description:   "Sign out everywhere, including the session that sends this request.",
		DefaultStatus: http.StatusNoContent,
	}, inPerson().whileEnrolling()), export.Variant{Order: orderEndSessions, Credential: memberToken}), func(ctx context.Context, _ *struct{}) (*struct{}, error) {
		return nil, s.EndSessions(ctx)
	})
}
