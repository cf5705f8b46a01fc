package app

import (
	"context"
	"time"

	"github.com/waypost/waypost/internal/account"
)

// tokenExpiry is the data of the alert about a service account's API token that expires
// soon.
type tokenExpiry struct {
	ServiceAccount     int64     `json:"service_account_id"`
	ServiceAccountName string    `json:"service_account_name"`
	Token              int64     `json:"token_id"`
	TokenName          string    `json:"token_name"`
	TokenPrefix        string    `json:"token_prefix"`
	ExpiresAt          time.Time `json:"expires_at"`
	Message            string    `json:"message"`
}

// postExpiry posts the alert about a token that expires soon. Its mail left with the
// transaction that made the job.
func (s *Services) postExpiry(ctx context.Context, e account.TokenExpiry) error {
	return s.Alerts.Post(ctx, e.ID, "waypost.token.expiring", e.At, tokenExpiry{
		ServiceAccount: e.ServiceAccount, ServiceAccountName: e.AccountName,
		Token: e.Token, TokenName: e.TokenName, TokenPrefix: e.Prefix, ExpiresAt: e.ExpiresAt, Message: e.Message(),
	})
}
