//go:build browser

package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/internal/browsertest"
)

// shownDocs says that a UI has drawn the real description.
var shownDocs = map[string]string{
	"primary":   `document.body.innerText.includes("Quick start") && document.querySelectorAll("#reference h2, #reference h1").length > 0`,
	"alternate": `document.querySelectorAll(".opblock").length >= 50`,
}

// menuFaults are what axe-core has against the Export menu and the button that opens it.
const menuFaults = `axe.run({include: [["[popovertarget=export]"], ["#export"]]}, {runOnly: ["wcag2a", "wcag2aa", "wcag21aa", "wcag22aa", "best-practice"]})
	.then(r => { window.found = JSON.stringify(r.violations.map(v => [v.id, v.help, v.nodes.map(n => n.html)])); window.passed = r.passes.length }); true`

// TestTheExportMenuIsAccessibleInEveryUIWidthAndColour also takes the pictures of both UIs.
func TestTheExportMenuIsAccessibleInEveryUIWidthAndColour(t *testing.T) {
	axe, err := os.ReadFile(filepath.Join(npmInstalled(t, filepath.Join("..", "tools", "npm", "axe")), "node_modules", "axe-core", "axe.min.js"))
	if err != nil {
		t.Fatal(err)
	}
	p := startDev(t, dbtest.TempDir(t))
	for kind, shown := range shownDocs {
		for _, width := range []int64{1280, 390} {
			for _, mode := range []string{"light", "dark"} {
				t.Run(fmt.Sprintf("%s/%d/%s", kind, width, mode), func(t *testing.T) {
					tb := browsertest.Open(t, p.url+"/docs?ui="+kind, width, 900)
					colours := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: mode}}}
					if _, err := chromedp.Call(tb, emulation.SetEmulatedMedia, colours); err != nil {
						t.Fatal(err)
					}
					tb.Await(shown)
					tb.Picture(t.Name() + "/page")
					tb.Await(browsertest.ClickButton("export"))
					tb.Await(`document.querySelector("#export:popover-open")`)
					browsertest.Evaluate[bool](tb, string(axe)+"; true")
					browsertest.Evaluate[bool](tb, menuFaults)
					tb.Await("window.found")
					if found := browsertest.Evaluate[string](tb, "window.found"); found != "[]" {
						t.Error(found)
					}
					if browsertest.Evaluate[int](tb, "window.passed") < 3 {
						t.Error("axe-core looked at nothing")
					}
					tb.Finish()
				})
			}
		}
	}
}
