package blob_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/waypost/waypost/internal/blob"
	"github.com/waypost/waypost/internal/blob/blobtest"
)

func TestAStoreBelongsToTheInstallationThatClaimedItFirst(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := local(t, dir)
	for range 2 {
		if err := blob.Claim(t.Context(), s, "first"); err != nil {
			t.Errorf("the first: %v", err)
		}
		if err := blob.Claim(t.Context(), local(t, dir), "second"); !errors.Is(err, blob.ErrForeign) || !strings.Contains(err.Error(), "first") {
			t.Errorf("the second: %v, want ErrForeign that names the first", err)
		}
	}
	away := blobtest.Faulty{Store: s, Before: func(string, string) error { return blob.ErrUnavailable }}
	if err := blob.Claim(t.Context(), away, "first"); !errors.Is(err, blob.ErrUnavailable) {
		t.Errorf("a store that is away: %v", err)
	}
	if err := blob.Claim(t.Context(), s, "first"); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}
