package blob_test

import (
	"testing"

	"github.com/waypost/waypost/internal/blob"
	"github.com/waypost/waypost/internal/blob/blobtest"
)

func local(t *testing.T, dir string) *blob.Local {
	t.Helper()
	s, err := blob.NewLocal(blob.LocalOptions{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Not parallel: it measures memory.
func TestALocalStoreKeepsThePromisesOfStores(t *testing.T) {
	blobtest.Conform(t, func(t *testing.T) blob.Store { return local(t, t.TempDir()) })
}
