package mail_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/waypost/waypost/internal/mail"
	"github.com/waypost/waypost/internal/mail/mailtest"
)

var kinds = []mail.Kind{
	mail.VerifyEmail, mail.SetPassword, mail.ResetPassword, mail.PasswordChanged, mail.EmailChanged, mail.TwoFactorChanged,
}

func message(kind mail.Kind) mail.Message {
	return mail.Message{
		Kind: kind, To: "ada@example.com", Name: "{{.Link}} <b>Ada</b>",
		Link: "https://waypost.example/x?token=pl4nted", Code: "pl4nted", Detail: "Something happened.",
	}
}

func TestEveryKindHasATextThatAddressesThePerson(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds {
		subject, text, err := mail.Compose(message(kind))
		// Abuse case 50: what people call themselves is text, never a template.
		if err != nil || subject == "" || strings.ContainsAny(subject, "\r\n") || !strings.HasPrefix(text, "Hello {{.Link}} <b>Ada</b>,") {
			t.Errorf("%s: %q %q %v", kind, subject, text, err)
		}
		secret := kind == mail.VerifyEmail || kind == mail.SetPassword || kind == mail.ResetPassword
		if strings.Contains(text, message(kind).Link) != secret || strings.Contains(text, "\n  pl4nted\n") != secret {
			t.Errorf("%s: %s", kind, text)
		}
	}
}

func TestANameThatPretendsToBeMoreReachesNoMail(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"Ada,\n\nyour account was closed: https://evil.example\n", "Ada\x1b[2J", "\u202eadA", "A\u200bda"} {
		_, text, err := mail.Compose(mail.Message{Kind: mail.PasswordChanged, To: "ada@example.com", Name: name})
		if err != nil || !strings.HasPrefix(text, "Hello there,\n") {
			t.Errorf("%+q: %q, %v", name, text, err)
		}
	}
}

func TestAMessageThatCanNotBeSentIsRefused(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*mail.Message){
		"kind": func(m *mail.Message) { m.Kind = "none" }, "nobody": func(m *mail.Message) { m.To = "" },
		"another header": func(m *mail.Message) { m.To = "a@example.com\r\nBcc: b@example.com" }, // abuse case 49
	} {
		m := message(mail.VerifyEmail)
		change(&m)
		var memory mailtest.Memory
		if err := memory.Send(t.Context(), nil, m); err == nil || len(memory.Sent("")) != 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTheLogShowsLinksOnlyToDevelopers(t *testing.T) {
	t.Parallel()
	for _, show := range []bool{true, false} {
		var out bytes.Buffer
		l, err := mail.NewLog(mail.LogOptions{Logger: slog.New(slog.NewJSONHandler(&out, nil)), ShowLinks: show})
		if err != nil {
			t.Fatal(err)
		}
		for _, kind := range kinds {
			if err := l.Send(t.Context(), nil, message(kind)); err != nil {
				t.Error(err)
			}
		}
		if strings.Contains(out.String(), "pl4nted") != show || strings.Count(out.String(), "ada@example.com") != len(kinds) {
			t.Errorf("show %v: %s", show, out.String())
		}
	}
	if _, err := mail.NewLog(mail.LogOptions{}); err == nil {
		t.Error("made without a logger")
	}
}

func TestMemoryKeepsMessagesByAddress(t *testing.T) {
	t.Parallel()
	var memory mailtest.Memory
	for _, to := range []string{"a@example.com", "b@example.com", "a@example.com"} {
		m := message(mail.PasswordChanged)
		m.To = to
		if err := memory.Send(t.Context(), nil, m); err != nil {
			t.Fatal(err)
		}
	}
	if len(memory.Sent("a@example.com")) != 2 || len(memory.Sent("")) != 3 {
		t.Errorf("%v", memory.Sent(""))
	}
}
