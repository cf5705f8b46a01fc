package config_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/waypost/waypost/internal/config"
)

func TestAnIncompleteS3ServerIsRefusedByEachMissingVariablesName(t *testing.T) {
	t.Parallel()
	complete := []string{
		"WAYPOST_S3_ENDPOINT=https://s3.example.com", "WAYPOST_S3_BUCKET=files",
		"WAYPOST_S3_ACCESS_KEY=key", "WAYPOST_S3_SECRET_KEY=4711-hidden",
	}
	if c, err := config.Read(append(complete, "WAYPOST_UPLOAD_BACKEND=s3"), nil); err != nil || !c.Uploads.HasS3() {
		t.Errorf("a complete server: %v", err)
	}
	for _, backend := range []string{"local", "s3"} {
		for i, missing := range complete {
			environ := []string{"WAYPOST_UPLOAD_BACKEND=" + backend}
			for j, variable := range complete {
				if j != i {
					environ = append(environ, variable)
				}
			}
			name, _, _ := strings.Cut(missing, "=")
			_, err := config.Read(environ, nil)
			if err == nil || !strings.HasPrefix(err.Error(), name+" is not set") || strings.Contains(err.Error(), "\n") {
				t.Errorf("backend %s without %s: %v", backend, name, err)
			}
			if err != nil && strings.Contains(err.Error(), "4711") {
				t.Errorf("the error tells the secret: %v", err)
			}
		}
	}
	if _, err := config.Read(nil, nil); err != nil {
		t.Errorf("an installation that sets nothing doesn't start any more: %v", err)
	}
}

func TestSettingsOfUploadsAreRefusedByName(t *testing.T) {
	t.Parallel()
	for variable, bad := range map[string][]string{
		"WAYPOST_UPLOAD_BACKEND": {"S3", "none"},
		"WAYPOST_S3_ENDPOINT":    {"s3.example.com", "ftp://s3.example.com", "https://user:4711-hidden@s3.example.com", "https://s3.example.com/bucket", "https://s3.example.com?x=1", "https://"},
		"WAYPOST_S3_BUCKET":      {"a", "Files", "a/b", "-files", strings.Repeat("a", 64)},
		"WAYPOST_S3_PATH_STYLE":  {"perhaps"},
	} {
		for _, value := range bad {
			_, err := config.Read([]string{variable + "=" + value}, nil)
			if err == nil || !strings.Contains(err.Error(), variable) || strings.Contains(err.Error(), "4711") {
				t.Errorf("%s=%s: %v", variable, value, err)
			}
		}
	}
}

func TestServeWantsAnAbsoluteDirectoryForUploads(t *testing.T) {
	t.Parallel()
	for dir, refused := range map[string]bool{"uploads": true, "./uploads": true, "/srv/uploads": false, "": false} {
		c, err := config.Read([]string{"WAYPOST_UPLOAD_DIR=" + dir}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(strings.Join(c.ServeErrors(), "\n"), "WAYPOST_UPLOAD_DIR"); got != refused {
			t.Errorf("WAYPOST_UPLOAD_DIR=%s is refused: %t, want %t", dir, got, refused)
		}
	}
}

func TestSizesHaveUnitsOf1024(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]config.Size{
		"0": 0, "4096": 4096, "7B": 7, "1KiB": 1 << 10, "50MiB": 50 << 20, "50 MiB": 50 << 20, "1GiB": 1 << 30, "2TiB": 2 << 40,
		"9223372036854775807": 1<<63 - 1, "8388607TiB": 8388607 << 40,
	} {
		var got config.Size
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("%s is %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{
		"", "MiB", "-1", "+1", "1.5GiB", "50MB", "50mib", "50M", "1 000", " 1", "1 ", "0x10", "1_000", "9223372036854775808", "8388608TiB", "99999999999999999999",
	} {
		got := config.Size(3)
		if err := got.UnmarshalText([]byte(text)); err == nil || got != 3 {
			t.Errorf("%q is read as %d, %v", text, got, err)
		}
	}
}

func TestASizeIsReadAsItIsWritten(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := config.Size(rapid.Int64Range(0, 1<<62).Draw(t, "size") >> rapid.IntRange(0, 40).Draw(t, "shift") << rapid.IntRange(0, 20).Draw(t, "back"))
		if want < 0 {
			return
		}
		text, err := want.MarshalText()
		if err != nil {
			t.Fatal(err)
		}
		var got config.Size
		if err := got.UnmarshalText(text); err != nil || got != want {
			t.Fatalf("%d is written %s and read %d, %v", want, text, got, err)
		}
	})
}
