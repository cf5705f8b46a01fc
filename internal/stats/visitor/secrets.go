package visitor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/seal"
	"github.com/waypost/waypost/internal/site"
	"github.com/waypost/waypost/internal/stats/calendar"
)

// ErrForgotten says that the import secret of some line's month was destroyed, so that
// lines of that month would not meet the visitors of earlier ones.
var ErrForgotten = fault.New(fault.Gone, "import_forgotten",
	"The secret that imported visitors of these months are recognised by was destroyed, because nobody had used it for long or because an operator asked. "+
		"Lines can be added nevertheless (`waypost import --new-visitors`), but whoever is in them counts as somebody else than before.")

// ErrNoSecretKey says that a command was started without what opens import secrets.
var ErrNoSecretKey = errors.New("stats: an import needs WAYPOST_SECRET_KEY")

// importSecrets keeps, for each site and month of imported lines, the secret that the
// salts of the month's days are derived from. They are stored sealed.
type importSecrets struct {
	db      *db.DB
	queries *dbsqlc.Queries
	keys    *seal.Keyring
	now     func() time.Time
	random  io.Reader
}

// manyMonths is the month of the one secret that a site had before there was one for
// each month.
var manyMonths = time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)

func secretName(siteID uuid.UUID, month time.Time) string {
	return "import secret of site " + siteID.String() + " for " + month.Format("2006-01")
}

// of returns the secrets of some months and notes that they were used. It makes those
// that never were, and with renew those that were destroyed, for which it else returns
// ErrForgotten.
func (i importSecrets) of(ctx context.Context, siteID uuid.UUID, months []time.Time, renew bool) (map[time.Time][]byte, error) {
	if len(months) == 0 {
		return nil, nil
	}
	if i.keys == nil {
		return nil, ErrNoSecretKey
	}
	// In order, so that two who make or touch them never wait for each other in a circle.
	months = slices.SortedFunc(slices.Values(months), time.Time.Compare)
	secrets := make(map[time.Time][]byte, len(months))
	const attempts = 3 // another process may make one at the same time
	for range attempts {
		rows, err := i.queries.ListImportSecrets(ctx, i.db.Direct(), siteID, months)
		if err != nil {
			return nil, db.Translate(err)
		}
		missing, err := i.open(siteID, months, rows, renew, secrets)
		if err != nil {
			return nil, err
		}
		if len(missing) == 0 {
			return secrets, i.touch(ctx, siteID, months, rows)
		}
		if err := i.make(ctx, siteID, missing, renew); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("stats: the import secrets of site %s are being destroyed", siteID)
}

// open fills secrets, and returns the months that have none.
func (i importSecrets) open(siteID uuid.UUID, months []time.Time, rows []dbsqlc.ListImportSecretsRow, renew bool, secrets map[time.Time][]byte) ([]time.Time, error) {
	stored := make(map[time.Time]dbsqlc.ListImportSecretsRow, len(rows))
	for _, row := range rows {
		stored[row.Month.UTC()] = row
	}
	var missing []time.Time
	for _, month := range months {
		row, there := stored[month]
		if old, many := stored[manyMonths]; !there && many && !month.After(old.Until.UTC()) {
			row, there = old, true
		}
		switch {
		case there && row.Box != nil:
			secret, err := i.keys.Open(sealedAs(row.KeyID, row.Box), secretName(siteID, row.Month.UTC()))
			if err != nil {
				return nil, fmt.Errorf("stats: the import secret of %s can't be opened; set WAYPOST_SECRET_KEY_PREVIOUS to the secret key that was there before: %w", month.Format("2006-01"), err)
			}
			secrets[month] = secret
		case there && !renew:
			return nil, ErrForgotten
		default:
			missing = append(missing, month)
		}
	}
	return missing, nil
}

func (i importSecrets) make(ctx context.Context, siteID uuid.UUID, months []time.Time, renew bool) error {
	return i.db.InTx(ctx, identity.FromContext(ctx), func(ctx context.Context, tx pgx.Tx) error {
		for _, month := range months {
			secret := make([]byte, saltSize)
			if _, err := io.ReadFull(i.random, secret); err != nil {
				return fmt.Errorf("stats: randomness: %w", err)
			}
			sealed, err := i.keys.Seal(secret, secretName(siteID, month), i.random)
			if err != nil {
				return err
			}
			p := dbsqlc.InsertImportSecretParams{SiteID: siteID, Month: month, KeyID: &sealed.KeyID, Box: sealed.Box, UsedOn: i.today()}
			if renew {
				if err := i.queries.RenewImportSecret(ctx, tx, dbsqlc.RenewImportSecretParams{KeyID: p.KeyID, Box: p.Box, UsedOn: p.UsedOn, SiteID: siteID, Month: month}); err != nil {
					return err
				}
			}
			if err := i.queries.InsertImportSecret(ctx, tx, p); err != nil {
				return err
			}
		}
		return nil
	})
}

// touch notes a use, once a day.
func (i importSecrets) touch(ctx context.Context, siteID uuid.UUID, months []time.Time, rows []dbsqlc.ListImportSecretsRow) error {
	today, stale := i.today(), false
	used := append([]time.Time{}, months...)
	for _, row := range rows {
		stale = stale || row.UsedOn.Before(today)
		used = append(used, row.Month)
	}
	if !stale {
		return nil
	}
	return i.db.InTx(ctx, identity.FromContext(ctx), func(ctx context.Context, tx pgx.Tx) error {
		return i.queries.TouchImportSecrets(ctx, tx, today, siteID, used)
	})
}

func (i importSecrets) today() time.Time { return calendar.DateOf(i.now().UTC()) }

// DestroyImportSecrets destroys the import secrets that nobody used for as many days, and
// returns how many. 0 days keeps them.
func (b *Book) DestroyImportSecrets(ctx context.Context, days int) (int, error) {
	if days <= 0 {
		return 0, nil
	}
	var n int64
	err := b.db.InTx(ctx, identity.FromContext(ctx), func(ctx context.Context, tx pgx.Tx) error {
		var err error
		n, err = b.queries.DestroyImportSecrets(ctx, tx, b.secrets.today().AddDate(0, 0, -days))
		return err
	})
	return int(n), err
}

// Forget destroys a site's import secrets: from then on nobody can tell which visitor of
// an imported day an address was, and lines of these months are refused, unless they may
// be new visitors. It returns site.ErrNoSite.
func (b *Book) Forget(ctx context.Context, siteID uuid.UUID) error {
	if b.keys != nil {
		// What is forgotten stays known as such.
		if _, err := b.secrets.seal(ctx); err != nil {
			return err
		}
	}
	return b.db.InTx(ctx, identity.FromContext(ctx), func(ctx context.Context, tx pgx.Tx) error {
		if _, err := b.queries.ForgetPlainImportSecret(ctx, tx, siteID); err != nil {
			return db.NotFound(err, site.ErrNoSite)
		}
		return b.queries.ForgetImportSecrets(ctx, tx, siteID)
	})
}

// seal seals what is plain or sealed under another key.
func (i importSecrets) seal(ctx context.Context) (int, error) {
	plain, err := i.queries.ListPlainImportSecrets(ctx, i.db.Direct(), sealBatch)
	if err != nil {
		return 0, db.Translate(err)
	}
	keyID := i.keys.KeyID()
	former, err := i.queries.ListImportSecretsToSeal(ctx, i.db.Direct(), &keyID, sealBatch)
	if err != nil {
		return 0, db.Translate(err)
	}
	if len(plain)+len(former) == 0 {
		return 0, nil
	}
	n := 0
	err = i.db.InTx(ctx, identity.System("statistics"), func(ctx context.Context, tx pgx.Tx) error {
		n = len(plain)
		if err := i.sealPlain(ctx, tx, plain); err != nil {
			return err
		}
		for _, row := range former {
			name := secretName(row.SiteID, row.Month.UTC())
			opened, err := i.keys.Open(sealedAs(row.KeyID, row.Box), name)
			if err != nil {
				continue // refused with a word about the key when it is needed
			}
			sealed, err := i.keys.Seal(opened, name, i.random)
			if err != nil {
				return err
			}
			err = i.queries.ResealImportSecret(ctx, tx, dbsqlc.ResealImportSecretParams{
				KeyID: &sealed.KeyID, Box: sealed.Box, SiteID: row.SiteID, Month: row.Month, FormerBox: row.Box,
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

func (i importSecrets) sealPlain(ctx context.Context, tx pgx.Tx, rows []dbsqlc.ListPlainImportSecretsRow) error {
	until := calendar.MonthOf(i.today())
	for _, row := range rows {
		sealed, err := i.keys.Seal(row.ImportSecret, secretName(row.ID, manyMonths), i.random)
		if err != nil {
			return err
		}
		taken, err := i.queries.TakePlainImportSecret(ctx, tx, row.ID)
		if err != nil {
			return err
		}
		if taken == 0 {
			continue // another process sealed it
		}
		err = i.queries.SealPlainImportSecret(ctx, tx, dbsqlc.SealPlainImportSecretParams{
			KeyID: &sealed.KeyID, Box: sealed.Box, UsedOn: i.today(), Until: &until, SiteID: row.ID,
		})
		if err != nil {
			return err
		}
	}
	return nil
}
