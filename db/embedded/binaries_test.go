package embedded

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	embeddedpostgres "github.com/fergusstrange/embedded-postgres"
	"github.com/google/go-cmp/cmp"
)

// fakeServer makes a directory with programs that only say their version.
func fakeServer(t *testing.T, version string) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "waypost-fake-") // the server's user can enter it once it is opened
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, program := range []string{"postgres", "initdb"} {
		writeScript(t, filepath.Join(dir, program), "echo '"+program+" (PostgreSQL) "+version+"'")
	}
	return dir
}

func writeScript(t *testing.T, path, command string) {
	t.Helper()
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+command+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o755); err != nil { // whatever the umask
		t.Fatal(err)
	}
}

func TestServersAreSearchedInTheDocumentedOrder(t *testing.T) {
	a, err := serverAccount(t.TempDir() + "/none")
	if err != nil {
		t.Fatal(err)
	}
	named, configured, onPath := fakeServer(t, "16.1"), fakeServer(t, "17.2 (Debian 17.2-1)"), fakeServer(t, "18beta1")
	path := t.TempDir()
	writeScript(t, filepath.Join(path, "pg_config"), "echo "+configured)
	for _, program := range []string{"postgres", "initdb"} { // links, as distributions put there
		if err := os.Symlink(filepath.Join(onPath, program), filepath.Join(path, program)); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", path)
	for _, c := range []struct {
		what  string
		o     Options
		major int
		want  binaries
	}{
		{"WAYPOST_POSTGRES_BIN first", Options{BinDir: named}, 0, binaries{named, 16}},
		{"then pg_config", Options{}, 0, binaries{configured, 17}},
		{"the cluster's version only", Options{}, 18, binaries{onPath, 18}},
	} {
		got, err := findBinaries(t.Context(), c.o, a, c.major)
		if err != nil || got != c.want {
			t.Errorf("%s: %v (%v), want %v", c.what, got, err, c.want)
		}
	}
	if dirs := candidateDirs(); len(dirs) < 2 || dirs[0] != configured || dirs[1] != onPath {
		t.Errorf("candidates %v, want %s and %s first", dirs, configured, onPath)
	}
}

func TestANamedDirectoryIsNotReplacedByAnother(t *testing.T) {
	t.Parallel()
	a, err := serverAccount(t.TempDir() + "/none")
	if err != nil {
		t.Fatal(err)
	}
	broken := fakeServer(t, "17.1")
	writeScript(t, filepath.Join(broken, "postgres"), "exit 1")
	for what, c := range map[string]struct {
		dir   string
		major int
		want  string
	}{
		"missing":                 {filepath.Join(broken, "none"), 0, "no such file"},
		"too old":                 {fakeServer(t, "14.9"), 0, "version 14 is too old"},
		"another version's":       {fakeServer(t, "17.1"), 16, "cannot open a cluster made by version 16"},
		"something else entirely": {fakeServer(t, "x"), 0, "printed"},
		"broken":                  {broken, 0, "exit status 1"},
	} {
		_, err := findBinaries(t.Context(), Options{BinDir: c.dir}, a, c.major)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "WAYPOST_POSTGRES_BIN="+c.dir) {
			t.Errorf("%s: %v, want %q and the variable's name", what, err, c.want)
		}
	}
}

func TestWhenNothingIsFoundTheErrorNamesOneCommand(t *testing.T) {
	t.Parallel()
	err := notFound(16, []error{errors.New("/somewhere: version 14 is too old")})
	for _, want := range []string{"version 16", "install", "WAYPOST_POSTGRES_BIN", "DATABASE_URL", "/somewhere: version 14 is too old"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q lacks %q", err, want)
		}
	}
	got := map[string]string{}
	for name, c := range map[string]struct {
		goos, osRelease string
		root            bool
	}{
		"debian as root": {"linux", "PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nID=debian\n", true},
		"mint":           {"linux", "ID=linuxmint\nID_LIKE=\"ubuntu debian\"\n", false},
		"rocky":          {"linux", "ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\n", false},
		"alpine":         {"linux", "ID=alpine\n", true},
		"arch":           {"linux", "ID=arch\n", false},
		"tumbleweed":     {"linux", "ID=\"opensuse-tumbleweed\"\nID_LIKE=\"opensuse suse\"\n", false},
		"macOS":          {"darwin", "", false},
		"FreeBSD":        {"freebsd", "", true},
	} {
		got[name] = installCommand(c.goos, c.osRelease, c.root)
	}
	want := map[string]string{
		"debian as root": "apt-get install -y postgresql",
		"mint":           "sudo apt-get install -y postgresql",
		"rocky":          "sudo dnf install -y postgresql-server",
		"alpine":         "apk add postgresql",
		"arch":           "sudo pacman -S --noconfirm postgresql",
		"tumbleweed":     "sudo zypper install -y postgresql-server",
		"macOS":          "brew install postgresql@17",
		"FreeBSD":        "pkg install -y postgresql17-server",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestADownloadIsVerifiedExtractedAndRunnable(t *testing.T) {
	// Not in parallel: it has a temporary directory of its own, to see what is left.
	txz, err := os.ReadFile("testdata/postgresql.txz")
	if err != nil {
		t.Fatal(err)
	}
	var jar bytes.Buffer
	archive := zip.NewWriter(&jar)
	w, err := archive.Create("postgres.txz")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(txz); err != nil {
		t.Fatal(err)
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, sum, want string
	}{
		{"good", fmt.Sprintf("%x", sha256.Sum256(jar.Bytes())), ""},
		{"tampered with", strings.Repeat("0", 64), "checksums do not match"},
	} {
		t.Run(c.name, func(t *testing.T) {
			repository := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if strings.HasSuffix(r.URL.Path, ".sha256") {
					_, _ = w.Write([]byte(c.sum))
					return
				}
				_, _ = w.Write(jar.Bytes())
			}))
			t.Cleanup(repository.Close)
			cache := fakeServer(t, "0") // any directory that the server's user can enter
			dir := filepath.Join(cache, "postgresql")
			temporary := t.TempDir()
			t.Setenv("TMPDIR", temporary)
			t.Cleanup(func() {
				if left, err := os.ReadDir(temporary); err != nil || len(left) > 0 {
					t.Errorf("left in the temporary directory: %v (%v)", left, err)
				}
			})
			err := fetch(embeddedpostgres.DefaultConfig().BinaryRepositoryURL(repository.URL), cache, dir)
			if c.want != "" {
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("fetch: %v, want %q", err, c.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			a, err := serverAccount(filepath.Join(cache, "none"))
			if err != nil {
				t.Fatal(err)
			}
			got, err := probe(filepath.Join(dir, "bin"), a, 0)
			if want := (binaries{filepath.Join(dir, "bin"), 17}); err != nil || got != want {
				t.Errorf("probe: %v (%v), want %v", got, err, want)
			}
			if left, err := filepath.Glob(filepath.Join(cache, "extract-*")); err != nil || len(left) != 0 {
				t.Errorf("left behind: %v (%v)", left, err)
			}
		})
	}
}

func TestDownloadsExistForEverySupportedVersion(t *testing.T) {
	t.Parallel()
	for major := minMajor; major <= 18; major++ {
		if v, err := downloadVersion(major); err != nil || !strings.HasPrefix(string(v), fmt.Sprint(major, ".")) {
			t.Errorf("version %d: %q (%v)", major, v, err)
		}
	}
	if _, err := downloadVersion(99); err == nil {
		t.Error("there is a version 99")
	}
}
