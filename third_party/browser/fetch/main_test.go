package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waypost/waypost/third_party/browser/origin"
)

func TestStoredFilesComeFromThePinnedPackages(t *testing.T) {
	t.Parallel()
	var pins []pin
	if err := json.Unmarshal(packagesJSON, &pins); err != nil {
		t.Fatal(err)
	}
	for _, p := range pins {
		raw, err := os.ReadFile(filepath.Join("..", p.Directory, "origin.json"))
		if err != nil {
			t.Fatal(err)
		}
		var got origin.Origin
		if err := json.Unmarshal(raw, &got); err != nil {
			t.Fatal(err)
		}
		files := []string{}
		for _, f := range got.Files {
			files = append(files, f.Path)
		}
		if got.Package != p.Package || got.Version != p.Version || got.Integrity != p.Integrity || !cmp.Equal(files, p.Assets) {
			t.Errorf("%s: pinned is %+v, stored is %+v; run go generate", p.Directory, p, got)
		}
	}
}

func TestAFileThatThePackageLacksIsAnError(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	zipped := gzip.NewWriter(&out)
	archive := tar.NewWriter(zipped)
	if err := archive.WriteHeader(&tar.Header{Name: "package/a.js", Size: 2, Mode: 0o644}); err != nil {
		t.Fatal(err)
	}
	if _, err := archive.Write([]byte("hi")); err != nil {
		t.Fatal(err)
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	if err := zipped.Close(); err != nil {
		t.Fatal(err)
	}
	files, err := untar(out.Bytes(), []string{"a.js"})
	if err != nil || string(files["a.js"]) != "hi" {
		t.Errorf("%q %v", files, err)
	}
	if _, err := untar(out.Bytes(), []string{"b.js"}); err == nil {
		t.Error("a missing file went unnoticed")
	}
	if _, err := untar([]byte("no tarball"), nil); err == nil {
		t.Error("a damaged tarball went unnoticed")
	}
}
