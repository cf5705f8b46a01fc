package token

import (
	"context"
	"fmt"
	"time"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
)

// KeyState is what a signing key does at a moment.
type KeyState string

// The states, in the order in which a key goes through them.
const (
	KeyPublished KeyState = "published" // in the key set, ahead of its first signature
	KeySigning   KeyState = "signing"
	KeyVerifying KeyState = "verifying" // signs no more; its last tokens are still good
)

// Key describes a signing key without what is secret about it.
type Key struct {
	ID        string // the kid of its tokens
	State     KeyState
	CreatedAt time.Time
	SignsFrom time.Time
	// VerifiesUntil is when its tokens stop to be good; nil while nothing replaces it.
	VerifiesUntil *time.Time
}

// List returns the keys that verify at now, or will, newest first.
func List(ctx context.Context, d *db.DB, now time.Time) ([]Key, error) {
	rows, err := dbsqlc.New().ListSigningKeys(ctx, d.Pool(), now)
	if err != nil {
		return nil, fmt.Errorf("token: read the signing keys: %w", db.Translate(err))
	}
	list := make([]Key, len(rows))
	state := KeySigning // of the newest key that may sign
	for i, row := range rows {
		list[i] = Key{ID: row.Kid, State: KeyPublished, CreatedAt: row.CreatedAt.UTC(), SignsFrom: row.SignsFrom.UTC(), VerifiesUntil: row.RetiresAt}
		if !row.SignsFrom.After(now) {
			list[i].State, state = state, KeyVerifying
		}
	}
	return list, nil
}
