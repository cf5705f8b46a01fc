// Command fetch writes the UI assets of package browser from their npm packages,
// pinned by version and checksum in packages.json. It runs npm pack in a
// temporary directory, so that the registry and its credentials are npm's own
// business, and trusts nothing whose SHA-512 is not the pinned one. The
// compressors are Go modules pinned in go.mod: the same pins give the same bytes.
package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"crypto/sha512"
	_ "embed"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"

	"github.com/andybalholm/brotli"
	kgzip "github.com/klauspost/compress/gzip"

	"github.com/waypost/waypost/third_party/browser/origin"
)

//go:embed packages.json
var packagesJSON []byte

type pin struct {
	Directory string
	Package   string
	Version   string
	Integrity string
	Licence   string
	Source    string
	Assets    []string // compressed and served
	Notices   []string // copied as they are
}

func main() {
	if err := run("."); err != nil {
		fmt.Fprintln(os.Stderr, "fetch:", err)
		os.Exit(1)
	}
}

// run writes below root, the directory of package browser.
func run(root string) error {
	var pins []pin
	if err := json.Unmarshal(packagesJSON, &pins); err != nil {
		return fmt.Errorf("packages.json: %w", err)
	}
	for _, p := range pins {
		tarball, err := pack(p)
		if err != nil {
			return err
		}
		if err := p.write(filepath.Join(root, p.Directory), tarball); err != nil {
			return fmt.Errorf("%s@%s: %w", p.Package, p.Version, err)
		}
	}
	return nil
}

// pack downloads a package's tarball and holds it to its checksum.
func pack(p pin) ([]byte, error) {
	dir, err := os.MkdirTemp("", "browser-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	cmd := exec.Command("npm", "pack", "--silent", "--ignore-scripts", p.Package+"@"+p.Version)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("npm pack %s@%s: %w", p.Package, p.Version, err)
	}
	names, err := filepath.Glob(filepath.Join(dir, "*.tgz"))
	if err != nil || len(names) != 1 {
		return nil, fmt.Errorf("npm pack %s@%s left %d tarballs", p.Package, p.Version, len(names))
	}
	tarball, err := os.ReadFile(names[0])
	if err != nil {
		return nil, err
	}
	sum := sha512.Sum512(tarball)
	if got := "sha512-" + base64.StdEncoding.EncodeToString(sum[:]); got != p.Integrity {
		return nil, fmt.Errorf("%s@%s has checksum %s, pinned is %s", p.Package, p.Version, got, p.Integrity)
	}
	return tarball, nil
}

func (p pin) write(dir string, tarball []byte) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	files, err := untar(tarball, append(append([]string{}, p.Assets...), p.Notices...))
	if err != nil {
		return err
	}
	record := origin.Origin{Package: p.Package, Version: p.Version, Integrity: p.Integrity, Licence: p.Licence, Source: p.Source}
	for _, name := range p.Assets {
		data := files[name]
		sum := sha256.Sum256(data)
		base := path.Base(name)
		record.Files = append(record.Files, origin.File{Name: base, Path: name, SHA256: hex.EncodeToString(sum[:]), Size: int64(len(data))})
		if err := compress(filepath.Join(dir, base), data); err != nil {
			return err
		}
	}
	for _, name := range p.Notices {
		if err := os.WriteFile(filepath.Join(dir, path.Base(name)), files[name], 0o644); err != nil {
			return err
		}
	}
	text, err := json.MarshalIndent(record, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "origin.json"), append(text, '\n'), 0o644)
}

// untar returns the named files of an npm tarball, which keeps them under package/.
func untar(tarball []byte, names []string) (map[string][]byte, error) {
	unzipped, err := gzip.NewReader(bytes.NewReader(tarball))
	if err != nil {
		return nil, err
	}
	wanted := map[string]bool{}
	for _, name := range names {
		wanted[name] = true
	}
	files := map[string][]byte{}
	for archive := tar.NewReader(unzipped); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if name := strings.TrimPrefix(header.Name, "package/"); wanted[name] {
			if files[name], err = io.ReadAll(archive); err != nil {
				return nil, err
			}
		}
	}
	for _, name := range names {
		if files[name] == nil {
			return nil, fmt.Errorf("no file %s in the package", name)
		}
	}
	return files, nil
}

func compress(name string, data []byte) error {
	var br, gz bytes.Buffer
	b := brotli.NewWriterOptions(&br, brotli.WriterOptions{Quality: brotli.BestCompression, LGWin: 24})
	g, err := kgzip.NewWriterLevel(&gz, kgzip.BestCompression)
	if err != nil {
		return err
	}
	for _, w := range []io.WriteCloser{b, g} {
		if _, err := w.Write(data); err != nil {
			return err
		}
		if err := w.Close(); err != nil {
			return err
		}
	}
	if err := os.WriteFile(name+".br", br.Bytes(), 0o644); err != nil {
		return err
	}
	return os.WriteFile(name+".gz", gz.Bytes(), 0o644)
}
