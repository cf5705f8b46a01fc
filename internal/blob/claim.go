package blob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
)

// ErrForeign says that a store belongs to another installation.
var ErrForeign = errors.New("blob: the storage of files belongs to another installation of Waypost")

// ownerKey is the object that says whose store it is.
const ownerKey = "installation"

// maxOwner bounds an installation's name in bytes.
const maxOwner = 100

// Claim makes a store that nobody has claimed an installation's own, and returns
// ErrForeign when it is another's. Two databases with one bucket would otherwise
// delete each other's objects as orphans: nobody sweeps a store without asking.
func Claim(ctx context.Context, s Store, installation string) error {
	owner, err := readOwner(ctx, s)
	if errors.Is(err, ErrNotFound) {
		_, err = s.Put(ctx, ownerKey, "text/plain", strings.NewReader(installation))
		if err == nil {
			owner, err = readOwner(ctx, s) // of two at once the later one wins
		}
	}
	if err != nil {
		return err
	}
	if owner != installation {
		return fmt.Errorf("%w: it is that of %.*q, and this one is %q; give each its own directory or bucket", ErrForeign, maxOwner, owner, installation)
	}
	return nil
}

func readOwner(ctx context.Context, s Store) (string, error) {
	o, err := s.Open(ctx, ownerKey)
	if err != nil {
		return "", err
	}
	defer o.Close()
	owner, err := io.ReadAll(io.LimitReader(o, maxOwner))
	return string(owner), err
}
