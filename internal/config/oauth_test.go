package config_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waypost/waypost/internal/config"
)

func TestAProvidersIDAndSecretGoTogether(t *testing.T) {
	t.Parallel()
	for _, p := range []string{"GOOGLE", "GITHUB"} {
		for _, half := range []string{"_CLIENT_ID=half", "_CLIENT_SECRET=half"} {
			_, err := config.Read([]string{"WAYPOST_OAUTH_" + p + half}, nil)
			if err == nil || !strings.Contains(err.Error(), "WAYPOST_OAUTH_"+p+"_CLIENT_SECRET") {
				t.Errorf("%s%s: %v", p, half, err)
			}
		}
	}
	c, err := config.Read([]string{
		"WAYPOST_OAUTH_GOOGLE_CLIENT_ID=id", "WAYPOST_OAUTH_GOOGLE_CLIENT_SECRET=pl4nted",
		"WAYPOST_OAUTH_RETURN_URLS=https://app.example/in,com.example.app:/in", "WAYPOST_REQUIRE_ADMIN_2FA=true",
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := config.OAuth{
		GoogleClientID: "id", GoogleClientSecret: "pl4nted", GoogleURL: "https://accounts.google.com",
		GitHubURL: "https://github.com", GitHubAPIURL: "https://api.github.com",
		ReturnURLs: []string{"https://app.example/in", "com.example.app:/in"},
	}
	if diff := cmp.Diff(want, c.OAuth); diff != "" || !c.Accounts.RequireAdmin2FA {
		t.Error(diff)
	}
	for _, s := range config.Settings() {
		if strings.HasSuffix(s.Variable, "_SECRET") && s.Flag != "" {
			t.Errorf("%s has a flag, which the process list shows", s.Variable)
		}
	}
}
