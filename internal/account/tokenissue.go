package account

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/mail"
)

// What people and service accounts have in common about their API tokens.

// issue makes a token in a transaction, once check has found nothing wrong and if the
// acting account signed in of late, or an operator acts. It returns ErrReauthenticate.
func (s *core) issue(ctx context.Context, check func() error, do func(context.Context, pgx.Tx) (dbsqlc.ApiToken, string, error)) (APIToken, string, error) {
	if err := check(); err != nil {
		return APIToken{}, "", err
	}
	if !identity.FromContext(ctx).Operates() {
		if err := s.requireRecent(ctx); err != nil {
			return APIToken{}, "", err
		}
	}
	var row dbsqlc.ApiToken
	var secret string
	err := s.o.DB.InTx(ctx, identity.FromContext(ctx), func(ctx context.Context, tx pgx.Tx) error {
		var err error
		row, secret, err = do(ctx, tx)
		return err
	})
	if err != nil {
		return APIToken{}, "", err
	}
	return toAPIToken(row), secret, nil
}

// insertAPIToken stores a token of an account that is locked, and returns its secret. n
// was checked. It returns ErrManyAPITokens.
func (s *core) insertAPIToken(ctx context.Context, tx pgx.Tx, owner int64, n NewAPIToken) (dbsqlc.ApiToken, string, error) {
	networks, _ := parseNetworks(n.Networks)
	now := s.o.Now()
	row := dbsqlc.InsertAPITokenParams{
		UserID: owner, Name: n.Name, Scopes: texts(identity.NewScopes(n.Scopes...).List()), AllowedNetworks: []string{},
		Now: now, ExpiresAt: n.ExpiresAt,
	}
	for _, network := range networks {
		row.AllowedNetworks = append(row.AllowedNetworks, network.String())
	}
	if n.Rate > 0 {
		row.Rate = new(int32(n.Rate))
	}
	if n.ExpiresAt == nil && !n.Never {
		row.ExpiresAt = new(now.Add(DefaultTokenLife))
	}
	return s.storeAPIToken(ctx, tx, row)
}

// replaceAPIToken retires a token of an account that is locked, and stores its successor.
// It returns ErrNoAPIToken, ErrTokenReplaced or ErrManyAPITokens.
func (s *core) replaceAPIToken(ctx context.Context, tx pgx.Tx, owner, id int64, grace time.Duration) (dbsqlc.ApiToken, string, error) {
	now := s.o.Now()
	claimed, err := s.queries.RetireAPIToken(ctx, tx, dbsqlc.RetireAPITokenParams{ID: id, UserID: owner, Now: &now, EndsAt: now.Add(grace)})
	if errors.Is(err, pgx.ErrNoRows) {
		return dbsqlc.ApiToken{}, "", s.whyNotReplaced(ctx, tx, owner, id)
	}
	if err != nil {
		return dbsqlc.ApiToken{}, "", err
	}
	old := claimed.ApiToken
	row := dbsqlc.InsertAPITokenParams{
		UserID: owner, Name: old.Name, Scopes: old.Scopes, AllowedNetworks: old.AllowedNetworks, Rate: old.Rate, Now: now,
	}
	if claimed.HadExpiry != nil {
		row.ExpiresAt = new(now.Add(claimed.HadExpiry.Sub(old.CreatedAt)))
	}
	return s.storeAPIToken(ctx, tx, row)
}

func (s *core) whyNotReplaced(ctx context.Context, tx pgx.Tx, owner, id int64) error {
	exists, err := s.queries.APITokenExists(ctx, tx, id, owner)
	switch {
	case err != nil:
		return err
	case exists:
		return ErrTokenReplaced
	}
	return ErrNoAPIToken
}

// storeAPIToken inserts row with a new secret.
func (s *core) storeAPIToken(ctx context.Context, tx pgx.Tx, row dbsqlc.InsertAPITokenParams) (dbsqlc.ApiToken, string, error) {
	count, err := s.queries.CountLiveAPITokens(ctx, tx, row.UserID, &row.Now)
	if err != nil {
		return dbsqlc.ApiToken{}, "", err
	}
	if count >= maxAPITokens {
		return dbsqlc.ApiToken{}, "", ErrManyAPITokens
	}
	secret, err := s.newPrefixed(APITokenPrefix)
	if err != nil {
		return dbsqlc.ApiToken{}, "", err
	}
	row.Prefix, row.TokenSha256 = secret[:shownSecret], digest(secret)
	if len(row.AllowedNetworks) > 0 || row.Rate != nil {
		row.TokenSha256 = boundDigest(secret)
	}
	made, err := s.queries.InsertAPIToken(ctx, tx, row)
	return made, secret, err
}

// boundDigest is what is stored of the secret of a token with networks or a rate. Older
// programs, which would let such a token through from anywhere and at any rate, look for
// another digest and don't find it.
func boundDigest(secret string) []byte {
	sum := sha256.Sum256([]byte("waypost API token with bounds\x00" + secret))
	return sum[:]
}

func (s *core) listTokensOf(ctx context.Context, owner, before int64, limit int) ([]APIToken, error) {
	rows, err := s.queries.ListAPITokens(ctx, s.o.DB.Direct(), owner, before, int32(limit))
	if err != nil {
		return nil, db.Translate(err)
	}
	list := make([]APIToken, len(rows))
	for i, r := range rows {
		list[i] = toAPIToken(r)
	}
	return list, nil
}

func (s *core) revokeTokenOf(ctx context.Context, owner, id int64) error {
	return s.o.DB.InTx(ctx, identity.FromContext(ctx), func(ctx context.Context, tx pgx.Tx) error {
		now := s.o.Now()
		n, err := s.queries.RevokeAPIToken(ctx, tx, &now, id, owner)
		if err == nil && n == 0 {
			return ErrNoAPIToken
		}
		return err
	})
}

// tellTokenCreated tells somebody of a new API token. done is what was done with it.
func (s *core) tellTokenCreated(ctx context.Context, tx pgx.Tx, to dbsqlc.User, t dbsqlc.ApiToken, done string) error {
	what := "An API token was " + done
	if mail.Presentable(t.Name) {
		what = fmt.Sprintf("The API token %q was %s", t.Name, done)
	}
	ends := "It never expires."
	if t.ExpiresAt != nil {
		ends = "It expires on " + mail.Instant(*t.ExpiresAt) + "."
	}
	facts := []mail.Fact{{Label: "Scopes", Value: strings.Join(t.Scopes, ", ")}}
	if len(t.AllowedNetworks) > 0 {
		facts = append(facts, mail.Fact{Label: "Works from", Value: strings.Join(t.AllowedNetworks, ", ")})
	}
	if t.Rate != nil {
		facts = append(facts, mail.Fact{Label: "Requests a minute", Value: strconv.Itoa(int(*t.Rate))})
	}
	return s.notify(ctx, tx, to, mail.Message{Kind: mail.TokenCreated, Detail: what + ". " + ends, Facts: facts})
}
