//go:build browser

package e2e_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/pquerna/otp/totp"

	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/e2e/outside"
	"github.com/waypost/waypost/internal/browsertest"
)

// hand is how somebody uses a page: with the keyboard alone, or with a mouse where no
// script runs.
type hand struct {
	*browsertest.Tab
	t     *testing.T
	mouse bool
}

// press sends keys, as kb names those that are no letters.
func (h hand) press(keys string) {
	h.t.Helper()
	if err := chromedp.Do(h, chromedp.KeyEvent(keys)); err != nil {
		h.t.Fatal(err)
	}
}

// visible is the first element that can be seen, fits a selector and has a text.
const visible = `((selector, text) => [...document.querySelectorAll(selector)].find(e => e.checkVisibility() && e.innerText.trim().startsWith(text)))`

// reach puts the focus on an element by Tab, or the pointer by clicking.
func (h hand) reach(selector, text string) {
	h.t.Helper()
	found := fmt.Sprintf("%s(%q, %q)", visible, selector, text)
	h.Await(found)
	if h.mouse {
		at := browsertest.Evaluate[[]float64](h.Tab, `(e => { e.scrollIntoView({block: "center"}); const r = e.getClientRects()[0]; return [r.x + r.width / 2, r.y + r.height / 2] })(`+found+`)`)
		if err := chromedp.Do(h, chromedp.MouseClickXY(at[0], at[1])); err != nil {
			h.t.Fatal(err)
		}
		return
	}
	for range 400 {
		h.press(kb.Tab)
		if browsertest.Evaluate[bool](h.Tab, "document.activeElement === "+found) {
			return
		}
	}
	h.t.Fatalf("Tab never reaches %s %q", selector, text)
}

// use presses a button, follows a link or opens details.
func (h hand) use(selector, text, key string) {
	h.t.Helper()
	h.reach(selector, text)
	if !h.mouse {
		h.press(key)
	}
}

// signIn passes both factors.
func (h hand) signIn(dev map[string]string, code string) {
	h.t.Helper()
	h.Await(`document.activeElement.name === "email"`)
	h.press(dev["WAYPOST_ADMIN_EMAIL"])
	h.reach("#password", "")
	h.press(dev["WAYPOST_ADMIN_PASSWORD"])
	if h.mouse {
		h.use("button", "Sign in", "")
	} else {
		h.press(kb.Enter)
	}
	h.Await(`document.activeElement.name === "code"`)
	h.press(code)
	h.use("button", "Sign in", " ")
	awaitHeading(h.Tab, "Overview")
}

// One who has no mouse, and one whose browser runs no script, do the same work.
func TestThePagesAreUsedByKeyboardAloneAndWithoutScript(t *testing.T) {
	dir := dbtest.TempDir(t)
	p := startDev(t, dir)
	dev := devValues(t, dir)
	if code, _, errOut := command(t, []string{"WAYPOST_DATA_DIR=" + dir, "PAYMENT_WEBHOOK_SECRET=" + dev["PAYMENT_WEBHOOK_SECRET"]}, "", "webhook", "send", "--provider", "payment", "--type", "payment.succeeded", "--url", p.url); code != 0 {
		t.Fatal(errOut)
	}
	bearer := []string{"Authorization", "Bearer " + accessToken(t, p.url, dev), "Content-Type", "application/json"}
	var begun struct{ Data struct{ Secret string } }
	outside.Do(t, "POST", p.url+"/api/auth/2fa/setup", "", bearer...).Into(t, &begun)
	code := func(periods int) string {
		c, err := totp.GenerateCode(begun.Data.Secret, time.Now().Add(time.Duration(periods)*30*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	var enabled struct {
		Data struct {
			RecoveryCodes []string `json:"recovery_codes"`
		}
	}
	outside.Do(t, "POST", p.url+"/api/auth/2fa/enable", fmt.Sprintf(`{"code":%q}`, code(0)), bearer...).Into(t, &enabled)
	for _, way := range []struct {
		name, code string
		mouse      bool
	}{{"by keyboard", code(1), false}, {"without script", enabled.Data.RecoveryCodes[0], true}} {
		t.Run(way.name, func(t *testing.T) {
			h := hand{browsertest.Open(t, p.url+"/admin/sign-in", 1280, 900), t, way.mouse}
			if _, err := chromedp.Call(h, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: way.mouse}); err != nil {
				t.Fatal(err)
			}
			if err := chromedp.Do(h, chromedp.Navigate(p.url+"/admin")); err != nil {
				t.Fatal(err)
			}
			h.signIn(dev, way.code)
			h.work()
			h.Finish()
		})
	}
}

// work goes through each area, filters a list, looks into a delivery and handles it
// again, sorts a table, and signs out.
func (h hand) work() {
	h.t.Helper()
	for _, label := range strings.Split(browsertest.Evaluate[string](h.Tab, `[...document.querySelectorAll("header nav a")].map(e => e.innerText).join("|")`), "|") {
		h.use("header nav a", label, kb.Enter)
		h.Await(fmt.Sprintf(`document.querySelector("header nav a[aria-current=page]")?.innerText === %q`, label))
		h.Await(`document.readyState === "complete"`)
	}
	h.use("header nav a", "Webhooks", kb.Enter)
	awaitHeading(h.Tab, "Webhooks")
	if loaded := browsertest.Evaluate[bool](h.Tab, `document.readyState === "complete" && "htmx" in window`); loaded && h.mouse {
		h.t.Error("a script runs")
	}
	if !h.mouse {
		h.use("a.skip", "Skip", kb.Enter)
		h.press(kb.Tab)
		if !browsertest.Evaluate[bool](h.Tab, `!!document.activeElement.closest("main")`) {
			h.t.Error("the link that skips leads nowhere")
		}
		h.reach("select[name=status]", "")
		h.press(kb.ArrowDown + kb.ArrowDown) // pending, processed
	}
	h.reach("input[name=provider]", "")
	h.press("payment")
	h.use("form.filter button", "Filter", " ")
	h.Await(`location.search.includes("provider=payment")`)
	if status := browsertest.Evaluate[string](h.Tab, `document.querySelector("select[name=status]").value`); status == "" && !h.mouse {
		h.t.Error("the arrow keys choose nothing")
	}
	h.use("tbody a", "payment.succeeded", kb.Enter)
	h.Await(`location.pathname.length > 40`)
	h.use("summary", "As it was sent", " ")
	h.Await(`document.querySelector("details").open`)
	h.use("a.button", "Handle once more", kb.Enter)
	awaitHeading(h.Tab, "Handle this event once more?")
	h.use("main a", "Don't", kb.Enter)
	h.use("a.button", "Handle once more", kb.Enter)
	h.use("main button", "Handle it again", " ")
	h.Await(`document.querySelector("[role=status]")?.innerText === "The event is handled again."`)
	h.use("header nav a", "Users", kb.Enter)
	h.use("th a", "E-mail", kb.Enter)
	h.Await(`document.querySelector("th[aria-sort=ascending]")?.innerText.startsWith("E-mail")`)
	h.use("header button", "Sign out", " ")
	awaitHeading(h.Tab, "Sign in")
}

// controls are what Tab leads to, in the order of the page. A control that no Tab
// reaches, or that shows no outline then, is told by walked.
const controls = `[...document.querySelectorAll("a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex='0']")].filter(e => e.checkVisibility() && !e.disabled)`

const watchFocus = `window.stops = []; addEventListener("focusin", e => { const s = getComputedStyle(e.target); stops.push({e: e.target, ring: s.outlineStyle !== "none" && parseFloat(s.outlineWidth) >= 2}) }, true), true`

const walked = `(() => {
	const list = ` + controls + `, name = e => e.outerHTML.slice(0, 120), seen = stops.map(s => list.indexOf(s.e)).filter(i => i >= 0);
	return [
		...list.filter((e, i) => !seen.includes(i)).map(e => "never reached: " + name(e)),
		...stops.filter(s => !s.ring).map(s => "no outline: " + name(s.e)),
		...list.filter(e => e.tabIndex > 0).map(e => "out of order: " + name(e)),
		...seen.filter((at, i) => i > 0 && at < seen[i - 1] && at !== 0).map(i => "out of order: " + name(list[i])),
	].slice(0, 5).join("\n") })()`

// walk goes through a page by Tab from its beginning to its end: it must come to
// everything that can be used, in order, and show where it is.
func walk(tb *browsertest.Tab) string {
	browsertest.Evaluate[bool](tb, watchFocus)
	n := browsertest.Evaluate[int](tb, controls+`.length`)
	for range 6 { // a field of a date takes several
		if err := chromedp.Do(tb, chromedp.KeyEvent(strings.Repeat(kb.Tab, n/2+5))); err != nil {
			return err.Error()
		}
		if browsertest.Evaluate[bool](tb, `stops.some(s => s.e === `+controls+`.at(-1))`) {
			break
		}
	}
	return browsertest.Evaluate[string](tb, walked)
}

// What somebody has begun on a page that renews itself stays as it is.
func TestAPageThatRenewsItselfLeavesAloneWhatIsInUse(t *testing.T) {
	dir := dbtest.TempDir(t)
	p := startDev(t, dir)
	dev := devValues(t, dir)
	send := func(kind string) {
		t.Helper()
		if code, _, errOut := command(t, []string{"WAYPOST_DATA_DIR=" + dir, "PAYMENT_WEBHOOK_SECRET=" + dev["PAYMENT_WEBHOOK_SECRET"]}, "", "webhook", "send", "--provider", "payment", "--type", kind, "--url", p.url); code != 0 {
			t.Fatal(errOut)
		}
	}
	send("payment.first")
	h := hand{browsertest.Open(t, p.url+"/admin", 1280, 900), t, false}
	enter(h.Tab, dev)
	renewed := func() {
		t.Helper()
		browsertest.Evaluate[bool](h.Tab, `window.renewals = 0, document.addEventListener("htmx:after:swap", () => window.renewals++), window.own ??= fetch, window.fetch = async (...a) => { const r = await own(...a); window.renewals++; return r }, true`)
		h.Await(`window.renewals >= 3`)
	}
	h.use("header nav a", "Webhooks", kb.Enter)
	awaitHeading(h.Tab, "Webhooks")
	h.reach("input[name=event_type]", "")
	h.press("payment.fi")
	send("payment.second")
	h.Await(`document.body.innerText.includes("payment.second")`)
	h.press("rst")
	if got := browsertest.Evaluate[string](h.Tab, `document.activeElement.name + " " + document.activeElement.value`); got != "event_type payment.first" {
		t.Errorf("in the field that was being filled: %q", got)
	}
	h.reach("tbody a", "payment.first")
	send("payment.third")
	h.Await(`document.body.innerText.includes("payment.third")`)
	if got := browsertest.Evaluate[string](h.Tab, `document.activeElement.innerText`); got != "payment.first" {
		t.Errorf("the focus went to %q", got)
	}
	h.press(kb.Enter)
	h.use("summary", "As it was sent", " ")
	renewed()
	if !browsertest.Evaluate[bool](h.Tab, `document.querySelector("details").open && document.activeElement.tagName === "SUMMARY"`) {
		t.Error("what was opened is closed, or has lost the focus")
	}
	h.Finish()
}
