//go:build browser

// Package browsertest opens pages in a headless Chromium for tests with the build
// tag browser.
package browsertest

import (
	"context"
	"flag"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

var screenshots = flag.String("screenshots", "", "directory for pictures of the pages")

// Tab is a page of a headless Chromium that can reach this machine only, and
// what went wrong in it.
type Tab struct {
	context.Context
	t        *testing.T
	mu       sync.Mutex
	problems []string
}

// Open opens target in a window of that size in pixels, with a profile of its own.
func Open(t *testing.T, target string, width, height int64) *Tab {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox,
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"))
	allocator, stop := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(stop)
	ctx, closeTab := chromedp.NewContext(allocator)
	t.Cleanup(closeTab)
	tb := &Tab{Context: ctx, t: t}
	own, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	if err := chromedp.Listen(ctx, func(event any) { tb.watch(event, own.Host) }); err != nil {
		t.Fatal(err)
	}
	if _, err := chromedp.Call(ctx, network.Enable, network.EnableParams{}); err != nil {
		t.Fatal(err)
	}
	if _, err := chromedp.Call(ctx, log.Enable, cdp.Empty{}); err != nil {
		t.Fatal(err)
	}
	if err := chromedp.Do(ctx, chromedp.EmulateViewport(width, height), chromedp.Navigate(target)); err != nil {
		t.Fatal(err)
	}
	return tb
}

// Type types text where the focus is.
func (tb *Tab) Type(text string) {
	tb.t.Helper()
	if _, err := chromedp.Call(tb, input.InsertText, input.InsertTextParams{Text: text}); err != nil {
		tb.t.Fatal(err)
	}
}

// watch notes errors and warnings, and every request to a host that is not ours.
func (tb *Tab) watch(event any, ownHost string) {
	switch e := event.(type) {
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning {
			for _, arg := range e.Args {
				tb.note("console %s: %s%s", e.Type, arg.Value, arg.Description)
			}
		}
	case *runtime.EventExceptionThrown:
		tb.note("exception: %s %+v", e.ExceptionDetails.Text, e.ExceptionDetails.Exception)
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
			tb.note("log: %s %s", e.Entry.Text, e.Entry.URL)
		}
	case *network.EventRequestWillBeSent:
		if u, err := url.Parse(e.Request.URL); err != nil || u.Scheme != "data" && u.Scheme != "blob" && u.Host != ownHost {
			tb.note("request to another host: %.200s", e.Request.URL)
		}
	}
}

func (tb *Tab) note(format string, args ...any) {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	tb.problems = append(tb.problems, fmt.Sprintf(format, args...))
}

// Evaluate returns what a JavaScript expression is.
func Evaluate[T any](tb *Tab, expression string) T {
	tb.t.Helper()
	value, err := chromedp.Run(tb, chromedp.Evaluate[T](expression))
	if err != nil {
		tb.t.Fatalf("%s: %v; problems: %q", expression, err, tb.problems)
	}
	return value
}

// Await polls, frame by frame, until a JavaScript expression is true. A page that is just
// going away takes the poll with it, which begins anew on the next.
func (tb *Tab) Await(expression string) {
	tb.t.Helper()
	var err error
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if err = tb.poll(expression); err == nil {
			return
		}
	}
	text := Evaluate[string](tb, "document.body.innerText")
	tb.t.Fatalf("never true: %s: %v; problems: %q; page: %.3000s", expression, err, tb.problems, text)
}

// poll is Await for a while. A page that goes away may also leave the poll without any
// answer.
func (tb *Tab) poll(expression string) error {
	const patience = 3 * time.Second
	ctx, cancel := context.WithTimeout(tb, 2*patience)
	defer cancel()
	_, err := chromedp.Run(ctx, chromedp.Poll[bool]("!!("+expression+")", chromedp.WithPollingTimeout(patience)))
	return err
}

// Picture saves what is seen, if the flag screenshots says where.
func (tb *Tab) Picture(name string) {
	tb.t.Helper()
	if *screenshots == "" {
		return
	}
	png, err := chromedp.Run(tb, chromedp.CaptureScreenshot())
	if err != nil {
		tb.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(*screenshots, strings.ReplaceAll(name, "/", "-")+".png"), png, 0o644); err != nil {
		tb.t.Fatal(err)
	}
}

// Publish is Picture in the format of the documentation's pictures, and returns how many
// bytes that takes.
func (tb *Tab) Publish(name string) int {
	tb.t.Helper()
	taken, err := chromedp.Call(tb, page.CaptureScreenshot, page.CaptureScreenshotParams{Format: page.CaptureScreenshotFormatWebp, Quality: new(int64(80))})
	if err != nil {
		tb.t.Fatal(err)
	}
	if *screenshots != "" {
		if err := os.WriteFile(filepath.Join(*screenshots, name+".webp"), taken.Data, 0o644); err != nil {
			tb.t.Fatal(err)
		}
	}
	return len(taken.Data)
}

// Finish fails the test for anything that went wrong in the page.
func (tb *Tab) Finish() {
	tb.t.Helper()
	tb.Picture(tb.t.Name())
	tb.Check()
}

// Check is Finish without a picture.
func (tb *Tab) Check() {
	tb.t.Helper()
	if overflow := Evaluate[int](tb, "document.documentElement.scrollWidth - window.innerWidth"); overflow > 0 {
		tb.t.Errorf("the page is %d pixels wider than the window", overflow)
	}
	tb.mu.Lock()
	defer tb.mu.Unlock()
	for _, p := range tb.problems {
		tb.t.Error(p)
	}
}

// Buttons returns what the visible controls say, one line each.
const Buttons = `Array.from(document.querySelectorAll("button, input, a[role=button], [contenteditable=true]"))
	.filter(e => e.checkVisibility() && e.getClientRects().length > 0)
	.map(e => e.tagName + " " + (e.innerText || e.getAttribute("aria-label") || e.placeholder || e.title || "").trim()).join("\n")`

// ClickButton clicks the first visible button whose text begins with word and is
// false while there is none.
func ClickButton(word string) string {
	return fmt.Sprintf(`(() => {
		const b = Array.from(document.querySelectorAll("button")).find(e => e.checkVisibility() && (e.innerText || "").trim().toLowerCase().startsWith(%q));
		if (!b) return false;
		b.scrollIntoView({block: "center"}); b.click(); return true;
	})()`, word)
}
