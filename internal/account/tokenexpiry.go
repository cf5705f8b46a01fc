package account

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/mail"
)

// TokenExpiryNotice is how long before its expiry the administrators are told of a
// service account's API token.
const TokenExpiryNotice = 14 * 24 * time.Hour

// Bounds of one announcement.
const (
	toldAtOnce  = 100 // tokens, in one transaction
	namedAtMost = 10  // of them, in one mail
)

// Alerter tells every active ADMIN of something by mail within tx, once for each cause,
// and returns to how many.
type Alerter interface {
	Alert(ctx context.Context, tx pgx.Tx, cause, title, detail string) (int, error)
}

// TokenExpiry is the job that tells the receiver of alerts of an API token that will
// expire.
type TokenExpiry struct {
	ID             uuid.UUID `json:"id"` // the same at every attempt
	At             time.Time `json:"at"`
	ServiceAccount int64     `json:"service_account"`
	AccountName    string    `json:"account_name"`
	Token          int64     `json:"token"`
	TokenName      string    `json:"token_name"`
	Prefix         string    `json:"prefix"` // the visible beginning of the secret
	ExpiresAt      time.Time `json:"expires_at"`
}

// Kind implements queue.Job.
func (TokenExpiry) Kind() string { return "accounts.token_expiry" }

// Message says for people what the alert is about.
func (e TokenExpiry) Message() string {
	token := "An API token"
	if mail.Presentable(e.TokenName) {
		token = fmt.Sprintf("The API token %q", e.TokenName)
	}
	return fmt.Sprintf("%s of %s (%s...) expires on %s.", token, calledService(e.AccountName), e.Prefix, mail.Instant(e.ExpiresAt))
}

// TellOfExpiry tells of service accounts' API tokens that expire within
// TokenExpiryNotice, each once: it mails the administrators, all tokens in one mail, and
// inserts a TokenExpiry job for each. Tokens that were rotated, and those of deactivated
// accounts, are not told of. It returns how many tokens it told of.
func (s *ServiceAccounts) TellOfExpiry(ctx context.Context) (int, error) {
	told := 0
	for {
		n, err := s.tellOfSome(ctx)
		told += n
		if err != nil || n < toldAtOnce {
			return told, err
		}
	}
}

func (s *ServiceAccounts) tellOfSome(ctx context.Context) (int, error) {
	var list []TokenExpiry
	err := s.o.DB.InTx(ctx, identity.Step(ctx, "token-expiry"), func(ctx context.Context, tx pgx.Tx) error {
		now := s.o.Now().UTC()
		rows, err := s.queries.ClaimExpiringAPITokens(ctx, tx, &now, new(now.Add(TokenExpiryNotice)), toldAtOnce)
		if err != nil || len(rows) == 0 {
			return err
		}
		if list, err = s.expiries(rows, now); err != nil {
			return err
		}
		if s.o.Jobs != nil {
			for _, e := range list {
				if err := s.o.Jobs.Insert(ctx, tx, e); err != nil {
					return err
				}
			}
		}
		return s.mailExpiries(ctx, tx, list)
	})
	if err != nil {
		return 0, err
	}
	for _, e := range list {
		s.o.Logger.WarnContext(ctx, "an API token of a service account expires soon", "service_account", e.ServiceAccount, "token", e.Token, "expires_at", e.ExpiresAt)
	}
	return len(list), nil
}

func (s *ServiceAccounts) expiries(rows []dbsqlc.ClaimExpiringAPITokensRow, now time.Time) ([]TokenExpiry, error) {
	list := make([]TokenExpiry, len(rows))
	for i, r := range rows {
		id, err := uuid.NewRandomFromReader(s.o.Random)
		if err != nil {
			return nil, fmt.Errorf("account: id of an alert: %w", err)
		}
		list[i] = TokenExpiry{
			ID: id, At: now, ServiceAccount: r.ServiceAccount.ID, AccountName: r.ServiceAccount.Name,
			Token: r.ApiToken.ID, TokenName: r.ApiToken.Name, Prefix: r.ApiToken.Prefix, ExpiresAt: r.ApiToken.ExpiresAt.UTC(),
		}
	}
	return list, nil
}

// mailExpiries sends one mail about all, so that many that expire together don't use up
// what an address is sent in an hour.
func (s *ServiceAccounts) mailExpiries(ctx context.Context, tx pgx.Tx, list []TokenExpiry) error {
	if s.o.Alerts == nil {
		return nil
	}
	var lines []string
	for _, e := range list[:min(len(list), namedAtMost)] {
		lines = append(lines, e.Message())
	}
	if more := len(list) - namedAtMost; more > 0 {
		lines = append(lines, fmt.Sprintf("So do %d more; the log of the service names them.", more))
	}
	lines = append(lines, "Rotate them before that, and give their bots the new secrets.")
	_, err := s.o.Alerts.Alert(ctx, tx, "token expiry "+list[0].ID.String(), "API tokens of service accounts expire soon", strings.Join(lines, " "))
	return err
}

// ExpiringToken is an API token of a service account that ends soon.
type ExpiringToken struct {
	ID             int64
	Name           string
	ServiceAccount int64
	AccountName    string
	ExpiresAt      time.Time
}

// ExpiringTokens returns up to limit API tokens that expire within TokenExpiryNotice, the
// soonest first: those that TellOfExpiry tells of. Who may see them is the caller's
// business.
func (s *ServiceAccounts) ExpiringTokens(ctx context.Context, limit int) ([]ExpiringToken, error) {
	now := s.o.Now()
	rows, err := s.queries.ListExpiringAPITokens(ctx, s.o.DB.Direct(), now, now.Add(TokenExpiryNotice), int32(limit))
	if err != nil {
		return nil, db.Translate(err)
	}
	list := make([]ExpiringToken, len(rows))
	for i, r := range rows {
		list[i] = ExpiringToken{ID: r.ID, Name: r.Name, ServiceAccount: r.UserID, AccountName: r.AccountName, ExpiresAt: r.ExpiresAt.UTC()}
	}
	return list, nil
}
