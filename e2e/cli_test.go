package e2e_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/google/go-cmp/cmp"

	"github.com/waypost/waypost/db/dbtest"
)

func TestTheDescriptionNeedsNoDatabaseAndIsTheSameTwice(t *testing.T) {
	t.Parallel()
	env := []string{"DATABASE_URL=postgres://127.0.0.1:1/none"}
	code, first, errOut := command(t, env, "", "openapi", "--format", "json")
	if code != 0 {
		t.Fatal(errOut)
	}
	_, second, _ := command(t, env, "", "openapi", "--format", "json")
	if first != second {
		t.Error("two runs differ")
	}
	var fromJSON, fromYAML any
	if err := json.Unmarshal([]byte(first), &fromJSON); err != nil {
		t.Fatal(err)
	}
	_, asYAML, _ := command(t, env, "", "openapi", "--format", "yaml")
	if err := yaml.Unmarshal([]byte(asYAML), &fromYAML); err != nil {
		t.Fatal(err)
	}
	// Both through JSON once more, so that numbers have one type.
	normal, err := json.Marshal(fromYAML)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(normal, &fromYAML); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(fromJSON, fromYAML); diff != "" {
		t.Errorf("JSON and YAML differ: %.1000s", diff)
	}
}

func TestAWrongCommandLineSaysWhatToDo(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		env  []string
		args string
		code int
		says string
	}{
		{"unknown command", nil, "sevre", 2, "serve"},
		{"unknown flag", nil, "dev --adr x", 2, "did you mean --addr?"},
		{"half a command", nil, "serv", 2, "did you mean serve?"},
		{"help on an unknown command", nil, "help sevre", 2, "did you mean serve?"},
		{"a word after a flag that is true or false", nil, "serve --require-admin-2fa :9999", 2, "--flag=false"},
		{"a flag that is neither true nor false", nil, "dev --docs-read-only=yes", 2, "neither true nor false"},
		{"a length of time without a unit", []string{"WAYPOST_REQUEST_TIMEOUT=30"}, "serve", 2, "30s"},
		{"unknown subcommand", nil, "site make", 2, "make"},
		{"missing flag", nil, "site create --name x", 2, "--domain"},
		{"unknown variable", []string{"WAYPOST_SECRET_KYE=x"}, "serve", 2, "WAYPOST_SECRET_KEY"},
		{"serve without settings", nil, "serve", 2, "WAYPOST_URL"},
		{"weak secret key", []string{"DATABASE_URL=x", "WAYPOST_URL=https://a.example", "WAYPOST_SECRET_KEY=short"}, "serve", 2, "WAYPOST_SECRET_KEY"},
		{"guessable secret key", []string{"DATABASE_URL=x", "WAYPOST_URL=https://a.example", "WAYPOST_SECRET_KEY=changemechangemechangemechangeme"}, "serve", 2, "WAYPOST_SECRET_KEY_PREVIOUS"},
		{"unknown format", nil, "openapi --format xml", 2, "xml"},
		{"a taken address", nil, "dev --addr 256.0.0.1:1", 1, "--addr"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			code, out, errOut := command(t, c.env, "", strings.Fields(c.args)...)
			if code != c.code || !strings.Contains(errOut, c.says) || out != "" {
				t.Errorf("exit %d, stdout %q, stderr %q; want exit %d and %q on stderr", code, out, errOut, c.code, c.says)
			}
		})
	}
}

func TestServeMigratesOnlyWhenTold(t *testing.T) {
	t.Parallel()
	url := dbtest.Unmigrated(t).Owner
	env := []string{"DATABASE_URL=" + url, "WAYPOST_URL=https://a.example", "WAYPOST_SECRET_KEY=a secret key for tests, longer than 32 bytes"}
	code, _, errOut := command(t, env, "", "serve", "--addr", "127.0.0.1:0")
	if code != 1 || !strings.Contains(errOut, "waypost migrate up") {
		t.Errorf("on an empty database: exit %d, %q", code, errOut)
	}
	if code, out, _ := command(t, env, "", "migrate", "status"); code != 0 || strings.Contains(out, "applied") || !strings.Contains(out, "pending") {
		t.Errorf("status before: exit %d, %q", code, out)
	}
	code, _, errOut = command(t, env, "", "serve", "--addr", "127.0.0.1:0")
	if code != 1 || !strings.Contains(errOut, "lacks migrations") {
		t.Errorf("after a look at the status: exit %d, %q", code, errOut)
	}
	p := start(t, env, "serve", "--addr", "127.0.0.1:0", "--migrate")
	p.waitReady(t, func() string { return listeningURL(p.stderr.String()) })
	if code, out, _ := command(t, env, "", "migrate", "status"); code != 0 || strings.Contains(out, "pending") {
		t.Errorf("status after: exit %d, %q", code, out)
	}
	if code, out, errOut := command(t, env, "", "migrate", "up"); code != 0 {
		t.Errorf("up again: %q %q", out, errOut)
	}
}

func TestHelpConfigListsEveryVariable(t *testing.T) {
	t.Parallel()
	code, out, _ := command(t, nil, "", "help", "config")
	for _, name := range append([]string{"DATABASE_URL", "WAYPOST_SECRET_KEY", "WAYPOST_TRUSTED_PROXIES", "--addr"}, madeUp...) {
		if code != 0 || !bytes.Contains([]byte(out), []byte(name)) {
			t.Errorf("exit %d, %s is missing from\n%s", code, name, out)
		}
	}
}
