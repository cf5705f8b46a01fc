//go:build browser

package pages_test

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/waypost/waypost/internal/mail"
)

// look is what a browser made of a page.
type look struct {
	Overflow           int
	Ground, Text, Main string
	Button             string
}

const measure = `(() => {
	const color = (selector, what) => getComputedStyle(document.querySelector(selector))[what]
	return {
		overflow: document.documentElement.scrollWidth - innerWidth,
		ground: color("body", "backgroundColor"), text: color("body", "color"), main: color("main", "backgroundColor"),
		button: color("button", "backgroundColor"),
	}
})()`

// The policy lets the page's own style through, and the page fits a phone and a
// desk, by day and by night.
func TestThePagesAreStyledAndFitEveryWidth(t *testing.T) {
	s := newSite(t)
	server := httptest.NewServer(s.handler)
	t.Cleanup(server.Close)
	allocator, stop := chromedp.NewExecAllocator(t.Context(), append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox)...)
	t.Cleanup(stop)
	ctx, closeTab := chromedp.NewContext(allocator)
	t.Cleanup(closeTab)
	for _, scheme := range []string{"light", "dark"} {
		for _, width := range []int64{390, 1280} {
			for _, path := range []string{s.mailed(t, mail.VerifyEmail), s.forgot(t), "/account/reset-password"} {
				media := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}
				if err := chromedp.Do(ctx, chromedp.EmulateViewport(width, 844)); err != nil {
					t.Fatal(err)
				}
				if _, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, media); err != nil {
					t.Fatal(err)
				}
				if err := chromedp.Do(ctx, chromedp.Navigate(server.URL+path)); err != nil {
					t.Fatal(err)
				}
				got, err := chromedp.Run(ctx, chromedp.Evaluate[look](measure))
				if err != nil {
					t.Fatal(err)
				}
				want := look{Ground: "rgb(244, 245, 247)", Text: "rgb(26, 31, 41)", Main: "rgb(255, 255, 255)", Button: "rgb(31, 82, 201)"}
				if scheme == "dark" {
					want = look{Ground: "rgb(20, 23, 28)", Text: "rgb(232, 235, 241)", Main: "rgb(29, 33, 41)", Button: "rgb(138, 176, 255)"}
				}
				if got != want {
					t.Errorf("%s, %s, %d wide: %+v, want %+v", path, scheme, width, got, want)
				}
			}
		}
	}
	if err := chromedp.Do(ctx, chromedp.Navigate(server.URL+s.mailed(t, mail.VerifyEmail))); err != nil {
		t.Fatal(err)
	}
	if _, err := chromedp.Run(ctx, chromedp.Evaluate[bool](`document.querySelector("#password").value = "`+password+`", document.querySelector("button").click(), true`)); err != nil {
		t.Fatal(err)
	}
	text := ""
	for deadline := time.Now().Add(30 * time.Second); !strings.Contains(text, "confirmed") && time.Now().Before(deadline); {
		// A page that is just going away has nothing to say.
		text, _ = chromedp.Run(ctx, chromedp.Evaluate[string](`document.title`))
	}
	if !strings.Contains(text, "confirmed") {
		t.Errorf("the button leads to %q", text)
	}
}
