//go:build browser

package e2e_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/e2e/outside"
	"github.com/waypost/waypost/internal/browsertest"
)

// accessToken signs dev's ADMIN in.
func accessToken(t *testing.T, url string, dev map[string]string) string {
	t.Helper()
	body, err := json.Marshal(map[string]string{"email": dev["WAYPOST_ADMIN_EMAIL"], "password": dev["WAYPOST_ADMIN_PASSWORD"]})
	if err != nil {
		t.Fatal(err)
	}
	var in struct {
		Data struct {
			AccessToken string `json:"access_token"`
		}
	}
	outside.Do(t, "POST", url+"/api/auth/login", string(body), "Content-Type", "application/json").Into(t, &in)
	if in.Data.AccessToken == "" {
		t.Fatal("no access token")
	}
	return in.Data.AccessToken
}

// focus puts the focus on the first visible element that a selector finds, and is
// false while there is none.
func focus(selector string) string {
	return fmt.Sprintf(`(() => {
		const e = Array.from(document.querySelectorAll(%q)).find(e => e.checkVisibility());
		if (!e) return false;
		e.scrollIntoView({block: "center"}); e.focus(); return document.activeElement === e;
	})()`, selector)
}

// getMe is where each UI shows the operation that says who asks.
var getMe = map[string]string{
	"primary":   "/docs?ui=primary#tag/sign-in/GET/api/auth/me",
	"alternate": "/docs?ui=alternate#/Sign-in/get-me",
}

func TestBothUIsSignInAndSendARequestOfTheRealDescription(t *testing.T) {
	dir := dbtest.TempDir(t)
	p := startDev(t, dir)
	dev := devValues(t, dir)
	token, email := accessToken(t, p.url, dev), dev["WAYPOST_ADMIN_EMAIL"]

	t.Run("alternate", func(t *testing.T) {
		tb := browsertest.Open(t, p.url+getMe["alternate"], 1280, 900)
		tb.Await(`!!document.querySelector(".opblock.is-open .try-out__btn")`)
		tb.Await(`document.querySelectorAll(".opblock").length >= 50`)
		tb.Await(browsertest.ClickButton("authorize"))
		tb.Await(focus("#auth-bearer-value"))
		tb.Type(token)
		tb.Await(`(() => { const b = document.querySelector("#auth-bearer-value").closest("form").querySelector("button[type=submit]"); b.click(); return true })()`)
		tb.Await(browsertest.ClickButton("close"))
		tb.Await(browsertest.ClickButton("try it out"))
		tb.Await(browsertest.ClickButton("execute"))
		tb.Await(fmt.Sprintf(`!!document.querySelector(".live-responses-table") && document.querySelector(".live-responses-table").innerText.includes(%q)`, email))
		tb.Finish()
	})
	t.Run("primary", func(t *testing.T) {
		tb := browsertest.Open(t, p.url+getMe["primary"], 1280, 900)
		tb.Await(`document.body.innerText.includes("/api/auth/me")`)
		tb.Await(clickWithin("section[id$='GET/api/auth/me'] button", "Test Request"))
		tb.Await(`(() => {
			const b = Array.from(document.querySelectorAll("[role=dialog] button[aria-expanded]")).find(b => b.textContent.includes("Authentication"));
			if (!b) return false;
			if (b.getAttribute("aria-expanded") === "false") b.click();
			return b.getAttribute("aria-expanded") === "true";
		})()`)
		tb.Await(focus("[role=dialog] input[placeholder=Token]"))
		tb.Type(token)
		tb.Await(clickWithin("[role=dialog] button", "Send"))
		tb.Await(fmt.Sprintf(`document.querySelector("[role=dialog]").innerText.includes(%q)`, email))
		tb.Finish()
	})
}

// clickWithin clicks the first visible element that a selector finds and whose
// text has word, and is false while there is none.
func clickWithin(selector, word string) string {
	return fmt.Sprintf(`(() => {
		const e = Array.from(document.querySelectorAll(%q)).find(e => e.checkVisibility() && e.textContent.includes(%q));
		if (!e) return false;
		e.click(); return true;
	})()`, selector, word)
}

// sending lists the visible controls of a page that send, sign in, or take what
// would be sent. Operations have names like "Send a link", so that it is told by
// the UIs' own words and classes.
func sending(tb *browsertest.Tab) string {
	return browsertest.Evaluate[string](tb, `Array.from(document.querySelectorAll("button, input, textarea, [contenteditable=true]"))
		.filter(e => e.checkVisibility() && e.getClientRects().length > 0)
		.filter(e => e.matches(".try-out__btn, .execute, .authorize, .authorization__btn, input:not([type=checkbox]):not([type=search]), textarea, [contenteditable=true]")
			|| /^(test request|send|execute|authorize|try it out|log ?in)\b/i.test(e.innerText.trim()) && !e.closest("nav, aside, .opblock-summary"))
		.map(e => e.tagName + " " + (e.innerText || e.placeholder || e.className)).join("\n")`)
}

func TestReadOnlyUIsOfTheRealDescriptionSendNothing(t *testing.T) {
	ready := map[string]string{
		"primary":   `document.body.innerText.includes("/api/auth/me")`,
		"alternate": `document.querySelectorAll(".opblock").length >= 50 && !!document.querySelector(".opblock.is-open .responses-wrapper")`,
	}
	for _, readOnly := range []bool{true, false} {
		p := startDev(t, dbtest.TempDir(t), fmt.Sprintf("WAYPOST_DOCS_READ_ONLY=%v", readOnly))
		for kind := range ready {
			t.Run(fmt.Sprintf("%s/%v", kind, readOnly), func(t *testing.T) {
				tb := browsertest.Open(t, p.url+getMe[kind], 1280, 900)
				tb.Await(ready[kind])
				if readOnly {
					if controls := sending(tb); controls != "" {
						t.Errorf("there are controls that send or sign in:\n%s", controls)
					}
				} else if sending(tb) == "" {
					t.Error("what a page has that may send was not found: the test sees nothing")
				}
				tb.Finish()
			})
		}
	}
}
