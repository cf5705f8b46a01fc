package config_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waypost/waypost/internal/config"
)

func TestEverySettingIsDocumented(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, s := range config.Settings() {
		if s.Variable == "" || s.Help == "" {
			t.Errorf("%+v lacks a name or a meaning", s)
		}
		if seen[s.Variable] {
			t.Errorf("%s is listed twice", s.Variable)
		}
		seen[s.Variable] = true
		for _, group := range strings.Split(s.For, ",") {
			if s.Flag != "" && group != "server" && group != "database" && group != "import" {
				t.Errorf("%s: no command takes --%s", s.Variable, s.Flag)
			}
		}
		if strings.Contains(s.Variable, "SECRET") && s.Flag != "" {
			t.Errorf("%s would show in the process list", s.Variable)
		}
	}
}

func TestFlagsWinOverVariablesAndVariablesOverDefaults(t *testing.T) {
	t.Parallel()
	c, err := config.Read([]string{"WAYPOST_ADDR=10.0.0.1:80", "WAYPOST_DATA_DIR=/srv", "WAYPOST_LOG_LEVEL="}, map[string]string{"WAYPOST_ADDR": ":0"})
	if err != nil {
		t.Fatal(err)
	}
	got := []string{c.Addr, c.DataDir, c.LogLevel}
	if diff := cmp.Diff([]string{":0", "/srv", "info"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestAWrongValueIsRefusedByItsVariablesName(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"WAYPOST_TRUSTED_PROXIES=10.0.0.0/99": "WAYPOST_TRUSTED_PROXIES",
		"WAYPOST_REQUEST_TIMEOUT=soon":        "WAYPOST_REQUEST_TIMEOUT",
		"WAYPOST_LOG_LEVEL=loud":              "WAYPOST_LOG_LEVEL",
		"WAYPOST_DATABASE_MAX_CONNS=0":        "WAYPOST_DATABASE_MAX_CONNS",
		"WAYPOST_STATS_TIMEOUT=0s":            "WAYPOST_STATS_TIMEOUT",
		"WAYPOST_DOCS_UI=swagger":             "WAYPOST_DOCS_UI",
		"WAYPOST_MCP=no":                      "WAYPOST_MCP",
		"WAYPOST_DOCS_READ_ONLY=perhaps":      "WAYPOST_DOCS_READ_ONLY",
		"WAYPOST_METRICS_TOKEN=short":         "WAYPOST_METRICS_TOKEN",
		"WAYPOST_WEBHOOK_ALERT_STREAK=0":      "WAYPOST_WEBHOOK_ALERT_STREAK",
		"WAYPOST_AUDIT_RETENTION_DAYS=-1":     "WAYPOST_AUDIT_RETENTION_DAYS",
		"WAYPOST_WEBHOOK_BODY_MEMORY=-1":      "WAYPOST_WEBHOOK_BODY_MEMORY",
		"WAYPOST_WEBHOOK_ALERT_STREAK=many":   "WAYPOST_WEBHOOK_ALERT_STREAK",
		"WAYPOST_WEBHOOK_ALERT_URL=/alert":    "WAYPOST_WEBHOOK_ALERT_URL",
		"WAYPOST_WEBHOOK_ALERT_URL=http://x/": "WAYPOST_WEBHOOK_ALERT_SECRET",
		"WAYPOST_SECRET_KYE=x":                "did you mean WAYPOST_SECRET_KEY?",
	} {
		if _, err := config.Read([]string{name}, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v does not say %q", name, err, want)
		}
	}
}

func TestTrustedProxiesTakeAddressesAndRanges(t *testing.T) {
	t.Parallel()
	c, err := config.Read([]string{"WAYPOST_TRUSTED_PROXIES=10.1.2.3/8, ::1"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("::1/128")}
	if diff := cmp.Diff(want, c.TrustedProxies, cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
		t.Error(diff)
	}
}

func TestServeNamesEachMissingOrWeakVariable(t *testing.T) {
	t.Parallel()
	good := config.Config{DatabaseURL: "postgres://x", URL: "https://api.example.com", SecretKey: "a secret key for tests, longer than 32 bytes"}
	if got := good.ServeErrors(); len(got) != 0 {
		t.Errorf("a complete configuration lacks %v", got)
	}
	for name, change := range map[string]func(*config.Config){
		"DATABASE_URL":                func(c *config.Config) { c.DatabaseURL = "" },
		"WAYPOST_URL":                 func(c *config.Config) { c.URL = "api.example.com" },
		"WAYPOST_SECRET_KEY":          func(c *config.Config) { c.SecretKey = "short" },
		"repeats one character":       func(c *config.Config) { c.SecretKey = strings.Repeat("a", 40) },
		"WAYPOST_SECRET_KEY_PREVIOUS": func(c *config.Config) { c.SecretKeyPrevious = "short" },
	} {
		c := good
		change(&c)
		if got := strings.Join(c.ServeErrors(), "\n"); !strings.Contains(got, name) {
			t.Errorf("%s is not named in %q", name, got)
		}
	}
}
