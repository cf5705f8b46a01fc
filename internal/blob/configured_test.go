package blob_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waypost/waypost/internal/blob"
	"github.com/waypost/waypost/internal/config"
	"github.com/waypost/waypost/internal/fault"
)

func TestEachConfigurationHasItsStores(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "uploads")
	bucket := config.Uploads{
		Backend: "s3", S3Endpoint: "https://s3.example.com", S3Bucket: "files", S3AccessKey: "a", S3SecretKey: "b",
	}
	both, back := bucket, bucket
	both.Dir, back.Dir, back.Backend = dir, dir, "local"
	for name, test := range map[string]struct {
		settings config.Uploads
		takes    string
		stores   int
	}{
		"nothing":          {config.Uploads{Backend: "local"}, "none", 0},
		"directory":        {config.Uploads{Backend: "local", Dir: dir}, "local", 1},
		"bucket":           {bucket, "s3", 1},
		"bucket, was dir":  {both, "s3", 2},
		"dir, was bucket":  {back, "local", 2},
		"no dir, a bucket": {func() config.Uploads { u := bucket; u.Backend = "local"; return u }(), "none", 1},
	} {
		s, stores, err := blob.Configured(test.settings)
		if err != nil || s.Name() != test.takes || len(stores) != test.stores {
			t.Errorf("%s: %v, %v, %v", name, s, stores, err)
		}
	}
	if _, _, err := blob.Configured(config.Uploads{Backend: "local", Dir: "/dev/null/uploads"}); err == nil || !strings.HasPrefix(err.Error(), "WAYPOST_UPLOAD_DIR: ") {
		t.Errorf("a directory that can't be made: %v", err)
	}
}

func TestWithoutAStoreEverythingIsUnavailable(t *testing.T) {
	t.Parallel()
	s, _, err := blob.Configured(config.Uploads{Backend: "local"})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	_, put := s.Put(ctx, "u/ab/abc", "text/plain", strings.NewReader("x"))
	_, open := s.Open(ctx, "u/ab/abc")
	_, stat := s.Stat(ctx, "u/ab/abc")
	_, presign := s.PresignPut(ctx, "u/ab/abc", blob.PutTerms{})
	var list error
	for _, err := range s.List(ctx, "") {
		list = err
	}
	for method, err := range map[string]error{
		"Put": put, "Open": open, "Stat": stat, "PresignPut": presign, "List": list, "Move": s.Move(ctx, "a", "b"), "Delete": s.Delete(ctx, "a"),
	} {
		if !errors.Is(err, blob.ErrUnavailable) || fault.KindOf(err) != fault.Unavailable {
			t.Errorf("%s = %v", method, err)
		}
	}
	if err := s.Check(ctx); err == nil || !strings.Contains(err.Error(), "WAYPOST_UPLOAD_DIR") {
		t.Errorf("Check = %v", err)
	}
}
