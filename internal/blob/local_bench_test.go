package blob_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/waypost/waypost/internal/blob"
	"github.com/waypost/waypost/internal/blob/blobtest"
)

// BenchmarkPut holds Put against a plain file in one directory, with fsync of both.
func BenchmarkPut(b *testing.B) {
	for _, size := range []int{64 << 10, 1 << 20} {
		content := blobtest.Bytes(1, size)
		run := func(name string, put func(n int64) error) {
			b.Run(fmt.Sprintf("%s/%dKiB", name, size>>10), func(b *testing.B) {
				var n atomic.Int64
				b.SetBytes(int64(size))
				b.SetParallelism(32) // 64 goroutines on two cores
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						if err := put(n.Add(1)); err != nil {
							b.Error(err)
						}
					}
				})
			})
		}
		dir := b.TempDir()
		s, err := blob.NewLocal(blob.LocalOptions{Dir: filepath.Join(dir, "store")})
		if err != nil {
			b.Fatal(err)
		}
		run("plain", func(n int64) error { return plain(filepath.Join(dir, fmt.Sprint(n)), content) })
		run("store", func(n int64) error {
			_, err := s.Put(b.Context(), blob.Key("u", fmt.Sprintf("%02x%d", n%256, n)), "", io.LimitReader(bytes.NewReader(content), 1<<30))
			return err
		})
	}
}

// plain is the least that keeps a file.
func plain(path string, content []byte) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Write(content); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
