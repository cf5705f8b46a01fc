package mail_test

import (
	"bytes"
	"log/slog"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/net/html"
	"pgregory.net/rapid"

	"github.com/waypost/waypost/internal/mail"
	"github.com/waypost/waypost/internal/mail/mailtest"
)

const base = "https://waypost.example"

func composer(t *testing.T) *mail.Composer {
	t.Helper()
	c, err := mail.NewComposer(base)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func message(kind mail.Kind) mail.Message {
	m := mail.Message{
		Kind: kind, To: "ada@example.com", UserID: 1, Name: "{{.Link}} <b>Ada</b>", Detail: "Something happened.",
		Facts: []mail.Fact{{Label: "With", Value: "Firefox on Linux"}},
	}
	if kind.Linked() {
		m.Link, m.Code = base+"/x?token=wpml_pl4nted", "wpml_pl4nted"
	}
	return m
}

func TestCase50EveryKindHasATextInWhichANameIsNoTemplate(t *testing.T) {
	t.Parallel()
	for _, kind := range mail.Kinds() {
		c, err := composer(t).Compose(message(kind))
		// Abuse case 50: what people call themselves is text, never a template.
		if err != nil || c.Subject == "" || strings.ContainsAny(c.Subject, "\r\n") || !strings.HasPrefix(c.Text, "Hello {{.Link}} <b>Ada</b>,") {
			t.Errorf("%s: %q %q %v", kind, c.Subject, c.Text, err)
		}
		if strings.Contains(c.HTML, "<b>") || !strings.Contains(c.HTML, "Hello {{.Link}} &lt;b&gt;Ada&lt;/b&gt;,") {
			t.Errorf("%s: %s", kind, c.HTML)
		}
		for _, part := range []string{c.Text, c.HTML} {
			if named := strings.Contains(part, "Account: ada@example.com"); named != (kind != mail.ConfirmEmail) {
				t.Errorf("%s says whose account it is about: %v", kind, named)
			}
			for _, want := range []string{"waypost.example", "You get this mail", "Something happened.", "Firefox on Linux"} {
				if !strings.Contains(part, want) {
					t.Errorf("%s says nothing of %q: %s", kind, want, part)
				}
			}
			// Once more in the text: as it is, for applications.
			if strings.Contains(part, "pl4nted") || strings.Contains(part, base+"/x?token=HIDDEN-SECRET") != kind.Linked() {
				t.Errorf("%s: %s", kind, part)
			}
		}
	}
}

// sources are what a program would load or open.
func sources(t *testing.T, page string) []string {
	t.Helper()
	node, err := html.Parse(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for n := range node.Descendants() {
		for _, a := range n.Attr {
			if a.Key == "href" || a.Key == "src" || a.Key == "background" {
				list = append(list, a.Val)
			}
		}
		if n.Data == "img" || n.Data == "script" || n.Data == "link" || n.Data == "iframe" {
			list = append(list, "<"+n.Data+">")
		}
	}
	return list
}

func TestMailsLinkToTheServiceAloneAndLoadNothing(t *testing.T) {
	t.Parallel()
	for _, kind := range mail.Kinds() {
		m := message(kind)
		m.Name = "Ada https://evil.example/"
		c, err := composer(t).Compose(m)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range sources(t, c.HTML) {
			if s != base && !strings.HasPrefix(s, base+"/") {
				t.Errorf("%s: %q", kind, s)
			}
		}
		if strings.Contains(c.HTML+c.Text, "evil") || regexp.MustCompile(`url\(|@import`).MatchString(c.HTML) {
			t.Errorf("%s: %s", kind, c.HTML)
		}
	}
}

func TestCase60ALinkOutOfTheServiceIsNeverMailed(t *testing.T) {
	t.Parallel()
	for _, link := range []string{"https://evil.example/x?token=wpml_pl4nted", base + ".evil.example/?token=wpml_pl4nted", "", base + "/x?token=another"} {
		m := message(mail.ResetPassword)
		m.Link = link
		if c, err := composer(t).Compose(m); err == nil {
			t.Errorf("%q: %s", link, c.Text)
		}
	}
}

func TestANameThatPretendsToBeMoreReachesNoMail(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"Ada,\n\nyour account was closed: https://evil.example\n", "Ada\x1b[2J", "\u202eadA", "A\u200bda", "https://evil.example", "HTTP://EVIL",
		"www.evil", "evil.com", "Please visit evil.co.uk/now", "evil\u3002com", "evil\uff0ecom", "ｅｖｉｌ．ｃｏｍ", "ev\u00adil.c\u200dom", "evil.c\u0301om",
		"evil.рф", "evil.xn--p1ai", "ada@evil", "mailto:ada", "javascript:alert(1)", "10.0.0.1", "//evil", `\\evil`, "HIDDEN-SECRET", "\xff", "\x00",
	} {
		c, err := composer(t).Compose(mail.Message{Kind: mail.PasswordChanged, To: "ada@example.com", Name: name})
		if err != nil || !strings.HasPrefix(c.Text, "Hello there,\n") {
			t.Errorf("%+q: %q, %v", name, c.Text, err)
		}
	}
	for _, name := range []string{"Ada", "Zoë", "O'Neil-Mc Gregor", "李小龍", "J. R. R.", "علی\u200cرضا", "क्\u200dष", "Ada (née Byron)", "50%", "a <b> & \"c\""} {
		if !mail.Presentable(name) {
			t.Errorf("%+q is left out", name)
		}
	}
}

func TestNoNameAddsALineAHeaderOrALinkToAMail(t *testing.T) {
	t.Parallel()
	c := composer(t)
	plain, err := c.Compose(mail.Message{Kind: mail.PasswordChanged, To: "ada@example.com", Name: "Ada"})
	if err != nil {
		t.Fatal(err)
	}
	lines, links := strings.Count(plain.Text, "\n"), len(sources(t, plain.HTML))
	rapid.Check(t, func(rt *rapid.T) {
		name := strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{
			"a", "B", "é", " ", ".", "com", "://", "http", "\n", "\r", "\u2028", "\u202e", "<a href=x>", "\"", "'", "&lt;", "{{", "}}", "@", "\u200d", "\u3002", "www", "/", "\\", ":",
		}), 1, 12).Draw(rt, "name"), "")
		got, err := c.Compose(mail.Message{Kind: mail.PasswordChanged, To: "ada@example.com", Name: name})
		if err != nil {
			rt.Fatal(err)
		}
		if strings.Count(got.Text, "\n") != lines || len(sources(t, got.HTML)) != links || got.Subject != plain.Subject {
			rt.Fatalf("%+q: %s", name, got.Text)
		}
		greeting, _, _ := strings.Cut(got.Text, "\n")
		if regexp.MustCompile(`(?i)://|[\p{L}\p{N}]\.com|@|www\.`).MatchString(greeting) {
			rt.Fatalf("%+q", greeting)
		}
	})
}

func TestAMessageThatCanNotBeSentIsRefused(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*mail.Message){
		"kind": func(m *mail.Message) { m.Kind = "none" }, "nobody": func(m *mail.Message) { m.To = "" },
		"another header": func(m *mail.Message) { m.To = "a@example.com\r\nBcc: b@example.com" }, // abuse case 49
		"two people":     func(m *mail.Message) { m.To = "a@example.com, b@example.com" },
		"a source route": func(m *mail.Message) { m.To = "<@evil.example:a@example.com>" },
	} {
		m := message(mail.VerifyEmail)
		change(&m)
		var memory mailtest.Memory
		if err := memory.Send(t.Context(), nil, m); err == nil || len(memory.Sent("")) != 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestATitleThatLooksLikeAnAddressIsReplaced(t *testing.T) {
	t.Parallel()
	m := mail.Message{Kind: mail.AlertKind, To: "ada@example.com", Title: "Attention\r\nBcc: b@example.com"}
	c, err := composer(t).Compose(m)
	if err != nil || c.Subject != "Something needs your attention (waypost.example)" {
		t.Errorf("%q, %v", c.Subject, err)
	}
}

func TestAProgramIsNamedInOurOwnWords(t *testing.T) {
	t.Parallel()
	for agent, want := range map[string]string{
		"Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0":                                                    "Firefox on Linux",
		"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/127.0 Safari/537.36 Edg/127.0":     "Edge on Windows",
		"Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.5 Safari/604.1": "Safari on iPhone",
		"curl/8.5.0": "curl", "": "an unknown program", "Your account is closed, call https://evil.example": "an unknown program",
	} {
		if got := mail.Program(agent); got != want {
			t.Errorf("%q is %q, want %q", agent, got, want)
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
		for _, kind := range mail.Kinds() {
			e := mail.Envelope{Kind: kind, To: "ada@example.com", Link: message(kind).Link, Content: mail.Content{Text: "wpml_pl4nted", HTML: "wpml_pl4nted"}}
			if err := l.Deliver(t.Context(), e); err != nil {
				t.Error(err)
			}
		}
		if strings.Count(out.String(), "pl4nted") != map[bool]int{true: 5}[show] || strings.Count(out.String(), "ada@example.com") != len(mail.Kinds()) {
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
