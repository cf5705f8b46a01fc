//go:build external

package blob_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/waypost/waypost/internal/blob"
	"github.com/waypost/waypost/internal/blob/blobtest"
	"github.com/waypost/waypost/internal/blob/s3test"
)

func s3(t *testing.T, o blob.S3Options) *blob.S3 {
	t.Helper()
	s, err := blob.NewS3(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Not parallel: it measures memory.
func TestAnS3StoreKeepsThePromisesOfStores(t *testing.T) {
	server := s3test.Start(t)
	var buckets atomic.Int32
	blobtest.Conform(t, func(t *testing.T) blob.Store {
		bucket := fmt.Sprintf("conform-%d", buckets.Add(1))
		server.Bucket(bucket)
		return s3(t, server.Options(bucket))
	})
}
