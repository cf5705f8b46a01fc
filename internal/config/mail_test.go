package config_test

import (
	"strings"
	"testing"

	"github.com/waypost/waypost/internal/config"
)

func TestWrongSettingsOfMailAreNamed(t *testing.T) {
	t.Parallel()
	good := []string{"WAYPOST_SMTP_HOST=smtp.example.com", "WAYPOST_MAIL_FROM=Waypost <waypost@example.com>"}
	if _, err := config.Read(good, nil); err != nil {
		t.Error(err)
	}
	for change, name := range map[string]string{
		"WAYPOST_MAIL_DRIVER=sendmail":                          "WAYPOST_MAIL_DRIVER",
		"WAYPOST_MAIL_FROM=nobody":                              "WAYPOST_MAIL_FROM",
		"WAYPOST_MAIL_FROM=a@example.com, b@example.com":        "WAYPOST_MAIL_FROM",
		"WAYPOST_MAIL_FROM=\"A\r\nBcc: b@c.d\" <a@example.com>": "WAYPOST_MAIL_FROM",
		"WAYPOST_SMTP_HOST=https://smtp.example.com":            "WAYPOST_SMTP_HOST",
		"WAYPOST_SMTP_PORT=0":                                   "WAYPOST_SMTP_PORT",
		"WAYPOST_SMTP_PORT=smtp":                                "WAYPOST_SMTP_PORT",
		"WAYPOST_SMTP_USERNAME=half":                            "WAYPOST_SMTP_PASSWORD",
		"WAYPOST_SMTP_PASSWORD=pl4nted":                         "WAYPOST_SMTP_USERNAME",
		"WAYPOST_SMTP_TLS=yes":                                  "WAYPOST_SMTP_TLS",
	} {
		_, err := config.Read(append([]string{change}, without(good, change)...), nil)
		if err == nil || !strings.Contains(err.Error(), name) || strings.Contains(err.Error(), "pl4nted") {
			t.Errorf("%s: %v", change, err)
		}
	}
	for _, lacking := range []struct{ given, name string }{
		{"WAYPOST_MAIL_DRIVER=smtp", "WAYPOST_SMTP_HOST"}, {"WAYPOST_MAIL_DRIVER=smtp", "WAYPOST_MAIL_FROM"}, {"WAYPOST_SMTP_HOST=smtp.example.com", "WAYPOST_MAIL_FROM"},
	} {
		if _, err := config.Read([]string{lacking.given}, nil); err == nil || !strings.Contains(err.Error(), lacking.name) {
			t.Errorf("%s alone: %v", lacking.given, err)
		}
	}
}

// without leaves out the variable that change sets.
func without(list []string, change string) []string {
	name, _, _ := strings.Cut(change, "=")
	var rest []string
	for _, e := range list {
		if !strings.HasPrefix(e, name+"=") {
			rest = append(rest, e)
		}
	}
	return rest
}

func TestAPasswordIsNotSentInTheClearToAnotherMachine(t *testing.T) {
	t.Parallel()
	for host, allowed := range map[string]bool{"smtp.example.com": false, "10.0.0.1": false, "localhost": true, "127.0.0.1": true, "::1": true} {
		_, err := config.Read([]string{
			"WAYPOST_SMTP_HOST=" + host, "WAYPOST_MAIL_FROM=a@example.com", "WAYPOST_SMTP_TLS=none", "WAYPOST_SMTP_USERNAME=u", "WAYPOST_SMTP_PASSWORD=pl4nted",
		}, nil)
		if (err == nil) != allowed {
			t.Errorf("%s: %v", host, err)
		}
	}
	if _, err := config.Read([]string{"WAYPOST_SMTP_HOST=h", "WAYPOST_MAIL_FROM=a@example.com", "WAYPOST_SMTP_TLS=none", "WAYPOST_SMTP_PORT=465"}, nil); err == nil {
		t.Error("port 465 without TLS")
	}
}

func TestTheDriverOfMailFollowsTheServer(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		m    config.Mail
		want string
	}{
		{config.Mail{}, "none"}, {config.Mail{Host: "h"}, "smtp"}, {config.Mail{Host: "h", Driver: "log"}, "log"}, {config.Mail{Driver: "none", Host: "h"}, "none"},
	} {
		if got := c.m.DriverIn(config.MailNone); got != c.want {
			t.Errorf("%+v: %s, want %s", c.m, got, c.want)
		}
	}
}
