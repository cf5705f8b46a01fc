//go:build external

package e2e_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/e2e/outside"
)

// documentBlock is a block of code in a page, with the file that it is the text of.
var documentBlock = regexp.MustCompile("(?ms)^(?:\\*\\*`([^`\n]+)`\\*\\*\n\n)?```([a-z]+)\n(.*?)^```$")

// followPage does in dir what a page of docs/ says, in its order: it writes the files
// that the page names, and runs its commands. It returns how many of each there were.
func followPage(t *testing.T, dir, page string) (files, commands int) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "docs", page))
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range documentBlock.FindAllStringSubmatch(string(text), -1) {
		file, language, code := block[1], block[2], block[3]
		switch {
		case file != "":
			files++
			if err := os.WriteFile(filepath.Join(dir, file), []byte(code), 0o600); err != nil {
				t.Fatal(err)
			}
		case language == "sh":
			for line := range strings.Lines(code) {
				commands++
				cmd := exec.CommandContext(t.Context(), "sh", "-c", line)
				cmd.Dir = dir
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Fatalf("%s: %v\n%s", line, err, out)
				}
			}
		default:
			t.Fatalf("a block that is neither a file nor a command:\n%s", code)
		}
	}
	return files, commands
}

// copyRepository copies what belongs to it, changes that are not committed included.
func copyRepository(t *testing.T) string {
	t.Helper()
	dir := dbtest.TempDir(t)
	cmd := exec.CommandContext(t.Context(), "git", "ls-files", "-co", "--exclude-standard")
	cmd.Dir = ".."
	list, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	for name := range strings.Lines(string(list)) {
		name = strings.TrimSpace(name)
		if err := copyFile(filepath.Join(dir, name), filepath.Join("..", name)); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
	return dir
}

func copyFile(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		return err
	}
	return out.Close()
}

type noteRow struct {
	ID    int64
	Title string
}

// docs/adding-a-resource.md is followed in a copy of the repository, and what comes out
// is used.
func TestAFifthResourceIsWhatThePageSays(t *testing.T) {
	t.Parallel()
	dir := copyRepository(t)
	if files, commands := followPage(t, dir, "adding-a-resource.md"); files != 6 || commands != 4 {
		t.Fatalf("%d files and %d commands", files, commands)
	}
	program := filepath.Join(dir, "waypost")
	urls := dbtest.Unmigrated(t)
	code, _, errOut := runToEnd(t, exec.CommandContext(t.Context(), program, "migrate", "up"), []string{"DATABASE_URL=" + urls.App, "WAYPOST_DATABASE_OWNER_URL=" + urls.Owner}, "")
	if code != 0 {
		t.Fatal(errOut)
	}
	p := startServeOf(t, program, urls.App)
	root := outside.Bearer(admin(t, p, urls.App))
	register := outside.Do(t, "POST", p.url+"/api/auth/register", `{"first_name":"Eve","last_name":"Adams","email":"eve@example.com","password":"`+outside.Password+`"}`)
	if register.Status != http.StatusCreated {
		t.Fatalf("%d %s", register.Status, register.Body)
	}
	eve := outside.Bearer(signIn(t, p, "eve@example.com", outside.Password))

	for _, title := range []string{"Zebra", "Aardvark", "Crème brûlée"} {
		a := outside.Do(t, "POST", p.url+"/api/notes", fmt.Sprintf(`{"title":%q,"text":"A secret recipe"}`, title), root...)
		if a.Status != http.StatusCreated || !strings.HasPrefix(a.Header.Get("Location"), "/api/notes/") {
			t.Fatalf("create: %d %s", a.Status, a.Body)
		}
	}
	for query, want := range map[string]string{
		"": "Crème brûlée, Aardvark, Zebra", "?sort=title": "Aardvark, Crème brûlée, Zebra", "?q=RECIPE+creme": "Crème brûlée",
		"?q=secr": "Crème brûlée, Aardvark, Zebra", "?q=cipe": "",
	} {
		if got := strings.Join(titlesOfNotes(t, p, query, root), ", "); got != want {
			t.Errorf("list%s: %s", query, got)
		}
	}
	if got := titlesOfNotes(t, p, "?q=secret&total=true", eve); len(got) > 0 {
		t.Errorf("somebody else's: %q", got)
	}
	wantError(t, outside.Do(t, "GET", p.url+"/api/notes?sort=text", "", root...), 422, "validation_failed")
	wantError(t, outside.Do(t, "POST", p.url+"/api/notes", `{"title":"two\nlines"}`, root...), 422, "validation_failed")
	wantError(t, outside.Do(t, "POST", p.url+"/api/notes", `{"title":"T","owner_id":2}`, root...), 422, "validation_failed")
	wantError(t, outside.Do(t, "GET", p.url+"/api/notes", ""), 401, "unauthenticated")
	for method, body := range map[string]string{"GET": "", "PUT": `{"title":"Hers"}`, "PATCH": `{"title":"Hers"}`, "DELETE": ""} {
		wantError(t, outside.Do(t, method, p.url+"/api/notes/1", body, eve...), 404, "not_found")
	}
	var changed struct{ Data noteRow }
	outside.Do(t, "PATCH", p.url+"/api/notes/1", `{"title":"Okapi"}`, root...).Into(t, &changed)
	if diff := cmp.Diff(noteRow{1, "Okapi"}, changed.Data); diff != "" {
		t.Error(diff)
	}
	if got := titlesOfNotes(t, p, "?q=okapi+recipe", root); len(got) != 1 || len(titlesOfNotes(t, p, "?q=zebra", root)) > 0 {
		t.Errorf("after the change: %q", got)
	}
	if a := outside.Do(t, "DELETE", p.url+"/api/notes/1", "", root...); a.Status != http.StatusNoContent {
		t.Errorf("delete: %d %s", a.Status, a.Body)
	}
	wantError(t, outside.Do(t, "GET", p.url+"/api/notes/1", "", root...), 404, "not_found")
	p.checkNotesAreKnown(t, dir, root)
}

func titlesOfNotes(t *testing.T, p *process, query string, who []string) []string {
	t.Helper()
	var list struct{ Data []noteRow }
	outside.Do(t, "GET", p.url+"/api/notes"+query, "", who...).Into(t, &list)
	titles := []string{}
	for _, n := range list.Data {
		titles = append(titles, n.Title)
	}
	return titles
}

// checkNotesAreKnown looks for the resource in everything that is derived.
func (p *process) checkNotesAreKnown(t *testing.T, dir string, root []string) {
	t.Helper()
	committed, err := os.ReadFile(filepath.Join(dir, "api", "openapi.json"))
	if err != nil {
		t.Fatal(err)
	}
	for place, text := range map[string]string{
		"the description":             string(outside.Do(t, "GET", p.url+"/docs/openapi.json", "").Body),
		"the description in the tree": string(committed),
		"the exports":                 string(outside.Do(t, "GET", p.url+"/docs/export/collection", "").Body),
	} {
		for _, want := range []string{"/api/notes", "Write a note"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s lacks %s", place, want)
			}
		}
	}
	var entries struct {
		Data []struct{ Op, Action string }
	}
	outside.Do(t, "GET", p.url+"/api/admin/audit?table=notes&row_id=1", "", root...).Into(t, &entries)
	got, err := json.Marshal(entries.Data)
	if err != nil {
		t.Fatal(err)
	}
	if want := `[{"Op":"delete","Action":"delete-note"},{"Op":"update","Action":"update-note"},{"Op":"insert","Action":"create-note"}]`; string(got) != want {
		t.Errorf("the audit log has %s", got)
	}
}
