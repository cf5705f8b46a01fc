package visitor

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/seal"
	"github.com/waypost/waypost/internal/site"
)

// SealPurpose is what seal.New derives the keys of salts and import secrets for.
const SealPurpose = "statistics"

// sealedAs is a secret as a row has it; keyID is nil when it has none.
func sealedAs(keyID *string, box []byte) seal.Sealed {
	s := seal.Sealed{Box: box}
	if keyID != nil {
		s.KeyID = *keyID
	}
	return s
}

// sealBatch is how many secrets SealSecrets seals in one transaction.
const sealBatch = 500

// saltName binds a sealed salt to its day.
func saltName(siteID uuid.UUID, day time.Time) string {
	return "salt of site " + siteID.String() + " on " + day.Format(time.DateOnly)
}

func (b *Book) newSalt(siteID uuid.UUID, day time.Time) (seal.Sealed, error) {
	salt := make([]byte, saltSize)
	if _, err := io.ReadFull(b.random, salt); err != nil {
		return seal.Sealed{}, fmt.Errorf("stats: randomness: %w", err)
	}
	return b.keys.Seal(salt, saltName(siteID, day), b.random)
}

// salted gives the days that instants need their stored salts, and remembers them with
// those of other days. A salt that can't be opened, because the secret key is another
// now, is replaced: the day's visitors count anew, which is better than to count nobody.
func (b *Book) salted(ctx context.Context, s site.Site, days []saltedDay, instants []time.Time) ([]saltedDay, error) {
	found := make([]*saltedDay, len(instants))
	match(found, instants, days)
	needed := make(map[time.Time]bool)
	for _, d := range found {
		if d != nil && !expired(d.Day, b.now()) {
			needed[d.Date] = true
		}
	}
	if len(days) == 0 {
		return days, nil
	}
	const attempts = 3 // another process may replace it at the same time
	for range attempts {
		replaced, err := b.openSalts(ctx, s.ID, days, needed)
		if err != nil {
			return nil, err
		}
		if !replaced {
			break
		}
	}
	var recent []saltedDay
	for _, d := range days {
		if d.salt != nil {
			recent = append(recent, d)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(recent) > 0 {
		b.recent[s.ID] = recent
	}
	return days, nil
}

// openSalts sets the salts of days that have one. It replaces those of needed days that
// are missing or can't be opened, and reports whether there were any.
func (b *Book) openSalts(ctx context.Context, siteID uuid.UUID, days []saltedDay, needed map[time.Time]bool) (bool, error) {
	rows, err := b.queries.ListSiteDaySalts(ctx, b.db.Direct(), siteID, days[0].Date, days[len(days)-1].Date)
	if err != nil {
		return false, db.Translate(err)
	}
	stored := make(map[time.Time]dbsqlc.ListSiteDaySaltsRow, len(rows))
	for _, row := range rows {
		stored[row.Day.UTC()] = row
	}
	replaced := false
	for i := range days {
		d := &days[i]
		row := stored[d.Date]
		if d.salt != nil || expired(d.Day, b.now()) {
			continue
		}
		if d.salt, err = b.openSalt(siteID, row); err == nil && d.salt != nil || !needed[d.Date] {
			continue
		}
		if err != nil {
			b.logger.ErrorContext(ctx, "a day's salt can't be opened and is replaced: its visitors count anew; is WAYPOST_SECRET_KEY another, without WAYPOST_SECRET_KEY_PREVIOUS?",
				"site", siteID, "day", d.Date.Format(time.DateOnly), "error", err)
		}
		replaced = true
		if err := b.replaceSalt(ctx, siteID, row); err != nil {
			return false, err
		}
	}
	return replaced, nil
}

// openSalt returns the salt of a row, nil when it has none. A program of before may have
// stored it plain.
func (b *Book) openSalt(siteID uuid.UUID, row dbsqlc.ListSiteDaySaltsRow) ([]byte, error) {
	if row.Salt != nil || row.SaltBox == nil {
		return row.Salt, nil
	}
	return b.keys.Open(sealedAs(row.SaltKey, row.SaltBox), saltName(siteID, row.Day.UTC()))
}

func (b *Book) replaceSalt(ctx context.Context, siteID uuid.UUID, row dbsqlc.ListSiteDaySaltsRow) error {
	sealed, err := b.newSalt(siteID, row.Day.UTC())
	if err != nil {
		return err
	}
	return b.db.InTx(ctx, identity.FromContext(ctx), func(ctx context.Context, tx pgx.Tx) error {
		return b.queries.ReplaceSiteDaySalt(ctx, tx, dbsqlc.ReplaceSiteDaySaltParams{
			SaltKey: &sealed.KeyID, SaltBox: sealed.Box, SiteID: siteID, Day: row.Day, FormerSalt: row.Salt, FormerBox: row.SaltBox,
		})
	})
}

// SealSecrets seals the salts and import secrets that a program of before left plain, or
// that are sealed under the previous secret key, and returns how many. What no key opens
// it leaves alone.
func (b *Book) SealSecrets(ctx context.Context) (int, error) {
	salts, err := b.sealSalts(ctx)
	if err != nil {
		return salts, err
	}
	secrets, err := b.secrets.seal(ctx)
	return salts + secrets, err
}

func (b *Book) sealSalts(ctx context.Context) (int, error) {
	keyID := b.keys.KeyID()
	rows, err := b.queries.ListSaltsToSeal(ctx, b.db.Direct(), &keyID, sealBatch)
	if err != nil {
		return 0, db.Translate(err)
	}
	n := 0
	err = b.db.InTx(ctx, identity.System("statistics"), func(ctx context.Context, tx pgx.Tx) error {
		n = 0
		for _, row := range rows {
			name := saltName(row.SiteID, row.Day.UTC())
			plain := row.Salt
			if plain == nil {
				var err error
				if plain, err = b.keys.Open(sealedAs(row.SaltKey, row.SaltBox), name); err != nil {
					continue
				}
			}
			sealed, err := b.keys.Seal(plain, name, b.random)
			if err != nil {
				return err
			}
			err = b.queries.ReplaceSiteDaySalt(ctx, tx, dbsqlc.ReplaceSiteDaySaltParams{
				SaltKey: &sealed.KeyID, SaltBox: sealed.Box, SiteID: row.SiteID, Day: row.Day, FormerSalt: row.Salt, FormerBox: row.SaltBox,
			})
			if err != nil {
				return err
			}
			n++
		}
		return nil
	})
	return n, err
}
