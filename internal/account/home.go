package account

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/throttle"
)

const (
	// home is how long a network is remembered as one of the account's own.
	home = 30 * 24 * time.Hour
	// seenEvery bounds how often it is written down that an account was at home.
	seenEvery = time.Hour
	// maxHomes is how many networks are remembered of an account.
	maxHomes = 100
)

// isHome reports whether the account was let in from the client's network of late.
// It costs the same for an account that does not exist.
func (s *core) isHome(ctx context.Context, userID int64) (bool, error) {
	address := identity.FromContext(ctx).Address
	if !address.IsValid() {
		return false, nil
	}
	known, err := s.queries.IsHome(ctx, s.o.DB.Direct(), userID, prefixOf(address, clientBits), s.o.Now().Add(-home))
	return known, db.Translate(err)
}

// rememberHome makes the client's network one of the account's own.
func (s *core) rememberHome(ctx context.Context, tx pgx.Tx, userID int64) error {
	address := identity.FromContext(ctx).Address
	if !address.IsValid() {
		return nil
	}
	now := s.o.Now()
	n, err := s.queries.SeeNetwork(ctx, tx, dbsqlc.SeeNetworkParams{
		UserID: userID, Network: prefixOf(address, clientBits), Now: now, Before: now.Add(-seenEvery),
	})
	if err != nil || n == 0 {
		return err
	}
	return s.queries.DeleteSurplusNetworks(ctx, tx, userID, maxHomes)
}

// forgiveSignIns lifts what keeps the account with that address out, wherever its
// holder is.
func (s *core) forgiveSignIns(ctx context.Context, tx pgx.Tx, email string) error {
	subject := emailSubject(email)
	// In the order in which a failure at home locks them.
	for _, l := range []throttle.Limit{signInFromHome, rightPasswords, widened(rightPasswords)} {
		if err := s.limits.ForgiveAll(ctx, tx, l, subject+"@"); err != nil {
			return err
		}
	}
	return s.limits.Forgive(ctx, tx, throttle.Key{Limit: signInOfAccount, Subject: subject})
}
