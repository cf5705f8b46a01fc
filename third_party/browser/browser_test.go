package browser

import (
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"path"
	"testing"

	"github.com/andybalholm/brotli"

	"github.com/waypost/waypost/third_party/browser/origin"
)

func TestStoredAssetsAreThePublishedFilesAndCarryTheirLicence(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{"scalar", "swagger-ui", "htmx"} {
		raw, err := Files.ReadFile(path.Join(dir, "origin.json"))
		if err != nil {
			t.Fatal(err)
		}
		var record origin.Origin
		if err := json.Unmarshal(raw, &record); err != nil {
			t.Fatal(err)
		}
		if licence, err := Files.ReadFile(path.Join(dir, "LICENSE")); err != nil || len(licence) < 500 {
			t.Errorf("%s: no licence text: %v", dir, err)
		}
		if len(record.Files) == 0 {
			t.Errorf("%s lists no files", dir)
		}
		for _, f := range record.Files {
			for _, ending := range []string{".br", ".gz"} {
				if got := originalSum(t, path.Join(dir, f.Name)+ending); got != f.SHA256 {
					t.Errorf("%s/%s%s unpacks to %s, the package has %s", dir, f.Name, ending, got, f.SHA256)
				}
			}
		}
	}
}

func originalSum(t *testing.T, name string) string {
	t.Helper()
	file, err := Files.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var original io.Reader = brotli.NewReader(file)
	if path.Ext(name) == ".gz" {
		if original, err = gzip.NewReader(file); err != nil {
			t.Fatal(err)
		}
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, original); err != nil {
		t.Fatal(err)
	}
	return hex.EncodeToString(sum.Sum(nil))
}
