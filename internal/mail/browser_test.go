//go:build browser

package mail_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/waypost/waypost/internal/browsertest"
	"github.com/waypost/waypost/internal/mail"
)

// shown is a mail as a person gets it.
func shown(kind mail.Kind) mail.Message {
	m := mail.Message{Kind: kind, To: "ada.lovelace@example.com", UserID: 1, Name: "Ada"}
	code := "wpml_" + strings.Repeat("Xy7-kQ2_", 6)[:43]
	switch kind {
	case mail.VerifyEmail:
		m.Link, m.Code = base+"/account/verify-email?token="+code, code
	case mail.ConfirmEmail, mail.UndoEmail:
		m.Link, m.Code = base+"/account/confirm-email?token="+code, code
	case mail.ResetPassword, mail.SetPassword:
		m.Link, m.Code = base+"/account/reset-password?token="+code, code
	case mail.TwoFactorChanged:
		m.Detail = "Two-factor authentication was turned off."
	case mail.TokenCreated:
		m.Detail = `The API token "deploy" was created for your account. It expires on 2 February 2026, 15:04 UTC.`
		m.Facts = []mail.Fact{{Label: "Scopes", Value: "read, write"}}
	case mail.IdentityChanged:
		m.Detail = "A sign-in through Google was linked to your account."
	case mail.AlertKind:
		m.Title, m.Detail = "The audit log is broken", "The audit log is broken at entry 4711 (row_hash). docs/audit.md says what to do."
	}
	if kind.Tells() {
		m.Facts = append(m.Facts, mail.Fact{Label: "When", Value: "2 January 2026, 15:04 UTC"},
			mail.Fact{Label: "From", Value: "2001:db8:1234:5678:9abc:def0:1234:5678"}, mail.Fact{Label: "With", Value: "Firefox on Linux"})
	}
	return m
}

func TestMailsFitTheirReadersWindowLightAndDark(t *testing.T) {
	t.Parallel()
	pages := map[string]string{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprint(w, pages[strings.TrimPrefix(r.URL.Path, "/")])
	}))
	defer server.Close()
	for _, kind := range mail.Kinds() {
		c, err := composer(t).Compose(shown(kind))
		if err != nil {
			t.Fatal(err)
		}
		pages[string(kind)] = strings.ReplaceAll(c.HTML, "HIDDEN-SECRET", "wpml_"+strings.Repeat("Xy7-kQ2_", 6)[:43])
	}
	for _, kind := range mail.Kinds() {
		for _, width := range []int64{1000, 390} {
			for _, scheme := range []string{"light", "dark"} {
				if scheme == "dark" && kind != mail.VerifyEmail && kind != mail.TokenCreated {
					continue // these two have all there is
				}
				t.Run(fmt.Sprintf("%s %d %s", kind, width, scheme), func(t *testing.T) {
					tab := browsertest.Open(t, server.URL+"/"+string(kind), width, 900)
					media := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}
					if _, err := chromedp.Call(tab, emulation.SetEmulatedMedia, media); err != nil {
						t.Fatal(err)
					}
					if heading := browsertest.Evaluate[string](tab, `document.querySelector("h1").innerText`); heading == "" {
						t.Error("no heading")
					}
					tab.Finish()
				})
			}
		}
	}
}
