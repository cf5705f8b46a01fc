package e2e_test

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db/dbtest"
)

// snippet is a fenced block of README.md or of a page of docs/.
type snippet struct {
	page, language, text string
}

var fence = regexp.MustCompile("(?ms)^```([a-z]*)\n(.*?)^```$")

// snippets returns all fenced blocks, by their pages.
func snippets(t *testing.T) []snippet {
	t.Helper()
	files, err := filepath.Glob("../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	var list []snippet
	for _, file := range append([]string{"../README.md"}, files...) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range fence.FindAllStringSubmatch(string(text), -1) {
			list = append(list, snippet{filepath.Base(file), m[1], m[2]})
		}
	}
	return list
}

// snippetOf is the only block of a page in which some words are.
func snippetOf(t *testing.T, page, has string) string {
	t.Helper()
	var found []string
	for _, s := range snippets(t) {
		if s.page == page && strings.Contains(s.text, has) {
			found = append(found, s.text)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%s has %d blocks with %q", page, len(found), has)
	}
	return found[0]
}

// The tests below that run a kind of block, or those of a list of their own.
const (
	shellTest      = "TestTheCommandsOfReadmeAndDocsDoWhatTheySay"
	productionTest = "TestTheReadmesWayToProductionEndsWithAServiceThatItsAdministratorSignsInTo"
	statementTest  = "TestTheStatementsOfTheDocsAreAccepted"
	loaderTest     = "TestTheFilesOfTheDocsAreRead"
)

// snippetTests say which test runs the block of a page in which some words are. Those of YAML
// and JSON that are not here are run by loaderTest.
var snippetTests = []struct{ page, has, test string }{
	{"README.md", "Waypost is ready.", "TestDevPrintsWhatTheReadmeShows"},
	{"README.md", "migrate up", productionTest},
	{"adding-a-resource.md", "create table notes", "TestAFifthResourceIsWhatThePageSays"},
	{"adding-a-resource.md", "-- name: InsertNote", "TestAFifthResourceIsWhatThePageSays"},
	{"adding-a-resource.md", "sqlc generate", "TestAFifthResourceIsWhatThePageSays"},
	{"adding-a-resource.md", "package content", "TestAFifthResourceIsWhatThePageSays"},
	{"adding-a-resource.md", "type Note struct {\n\tID        uint64", "TestAFifthResourceIsWhatThePageSays"},
	{"adding-a-resource.md", "type NoteService", "TestAFifthResourceIsWhatThePageSays"},
	{"adding-a-resource.md", "package main", "TestAFifthResourceIsWhatThePageSays"},
	{"adding-a-resource.md", "go generate ./api", "TestAFifthResourceIsWhatThePageSays"},
	{"audit.md", "--disable-triggers", "TestADataOnlyRestoreEndsWithTheTriggersAlwaysOn"},
	{"audit.md", `"seq":1`, "TestTheHashOfTheWorkedExampleStaysTheSame"},
	{"audit.md", "lp audit.v1", "TestAReaderComputesTheHashOfTheWorkedExampleWithAShell"},
	{"deployment.md", "CREATE ROLE waypost_owner", "TestTheGuideToDeploymentEndsWithAServiceThatItsAdministratorSignsInTo"},
	{"deployment.md", "waypost doctor", "TestTheGuideToDeploymentEndsWithAServiceThatItsAdministratorSignsInTo"},
	{"extending.md", "notice board", "TestOperationsAndOverridesOfAForkReachTheDescriptionAndTheGuard"},
	{"extending.md", "type greetingOutput", "TestOperationsAndOverridesOfAForkReachTheDescriptionAndTheGuard"},
	{"extending.md", "api.Greetings()", "TestOperationsAndOverridesOfAForkReachTheDescriptionAndTheGuard"},
	{"operations.md", "pg_dump", "TestTheGuideToBackupsRestoresOntoANewServer"},
	{"operations.md", "CREATE DATABASE", "TestTheGuideToBackupsRestoresOntoANewServer"},
	{"operations.md", "pg_restore", "TestTheGuideToBackupsRestoresOntoANewServer"},
	{"webhooks.md", "package main", "TestAProviderInCodeIsOneFileAndReachesTheService"},
	{"webhooks.md", "create table orders_paid", "TestAProviderInCodeIsOneFileAndReachesTheService"},
}

// notRun are the blocks that no test runs as they are printed, and why.
var notRun = []struct{ page, has, why string }{
	{"README.md", "go test ./...", "the first line is what every test of dev starts, the second is what runs this"},
	{"architecture.md", "flowchart TB", "a drawing"},
	{"architecture.md", "Huma operations", "a drawing"},
	{"architecture.md", "participant P as Provider", "a drawing"},
	{"architecture.md", "validated parameters", "a drawing"},
	{"architecture.md", "first walk", "a drawing"},
	{"architecture.md", "participant C as Client", "a drawing"},
	{"architecture.md", "audit.Sealing", "a drawing"},
	{"architecture.md", "a question", "a drawing"},
	{"audit.md", "digest    = SHA-256", "a formula, which the worked example below it follows"},
	{"audit.md", "SHA-256 of the body", "a formula, which TestTheChainOfTheDatabaseIsWhatTheDocumentSays computes"},
	{"audit.md", `"what": "emptied"`, "two values of a column, one to a line"},
	{"audit.md", "<base64>", "the form of a checkpoint, which e2e/auditproof reads"},
	{"bots.md", "import OpenAI", "the same call is made by TestOpenAIsOwnClientsWorkWithBaseURLAndKeyAlone"},
	{"bots.md", "openai.NewClient()", "the same call is made by TestOpenAIsOwnClientsWorkWithBaseURLAndKeyAlone"},
	{"bots.md", "claude mcp add", "needs a program that signs in to its maker; MCP's own client is run by the tests of e2e/truth"},
	{"deployment.md", "./waypost version", "the Containerfile's command, but for its place, is run by TestTheContainersStepsMakeAServiceThatNeedsNothingElse"},
	{"deployment.md", "systemctl", "needs systemd as the first process; TestTheUnitFileIsValidAndShutsTheServiceIn has systemd read the file"},
	{"deployment.md", "podman", "needs a builder of images; TestTheContainersStepsMakeAServiceThatNeedsNothingElse does its steps"},
	{"extending.md", "orders.forget", "its functions are the reader's"},
	{"operations.md", "npx newman", "fetches the newest of a registry; TestExternalToolsReadTheExportsAndRunThem runs the pinned one with these variables"},
	{"operations.md", "tools/release-description", "changes what is released"},
	{"scaling.md", "SELECT citus_set_coordinator_host", "needs Citus; was run on a cluster by hand"},
	{"scaling.md", "pg_restore --list waypost.dump", "needs a cluster's dump; was run by hand, and what migrate up restores is TestABackupOfAClusterRestoredIntoOnePostgreSQLGetsBackWhatShardingTook"},
	{"scaling.md", "waypost migrate distribute", "needs Citus; the tests with the tag citus do so on a cluster"},
	{"statistics.md", `data-site-key="wps_..."`, "the tests of api/script_browser_test.go load the script in Chromium"},
	{"statistics.md", "waypost.track('signup'", "the tests of api/script_browser_test.go call it in Chromium"},
	{"statistics.md", "this.q", "the tests of api/script_browser_test.go do so in Chromium"},
	{"webhooks.md", "X-Token: $ACME_SECRET", "the same deliveries are made by TestAProviderInCodeIsOneFileAndReachesTheService, which builds the provider"},
}

// testOf returns what runs a block, and how many entries of the lists speak of it.
func testOf(s snippet) (test string, entries int) {
	for _, e := range snippetTests {
		if e.page == s.page && strings.Contains(s.text, e.has) {
			test, entries = e.test, entries+1
		}
	}
	for _, e := range notRun {
		if e.page == s.page && strings.Contains(s.text, e.has) {
			test, entries = "none", entries+1
		}
	}
	for _, c := range statements {
		if c.page == s.page && strings.Contains(s.text, c.has) {
			test, entries = statementTest, entries+1
		}
	}
	for _, c := range commands {
		if c.page == s.page && strings.Contains(s.text, c.has) {
			test, entries = shellTest, entries+1
		}
	}
	if entries == 0 && (s.language == "yaml" || s.language == "json") {
		return loaderTest, 1
	}
	return test, entries
}

func TestEveryBlockOfReadmeAndDocsIsRunByATestOrSaysWhyNot(t *testing.T) {
	t.Parallel()
	used := 0
	for _, s := range snippets(t) {
		test, entries := testOf(s)
		if entries != 1 {
			first, _, _ := strings.Cut(s.text, "\n")
			t.Errorf("%s: %d entries of the lists in e2e/snippets_test.go and e2e/commands_test.go speak of the block of %s that begins with %q, want 1", s.page, entries, s.language, first)
		}
		if test != loaderTest {
			used++
		}
	}
	if want := len(snippetTests) + len(notRun) + len(statements) + len(commands); used != want {
		t.Errorf("the lists have %d entries, for %d blocks", want, used)
	}
	exist := testNames(t)
	for _, e := range snippetTests {
		if !exist[e.test] {
			t.Errorf("%s: no test has the name %s", e.page, e.test)
		}
	}
	for _, e := range notRun {
		for _, name := range regexp.MustCompile(`\bTest[A-Z]\w*`).FindAllString(e.why, -1) {
			if !exist[name] {
				t.Errorf("%s: no test has the name %s", e.page, name)
			}
		}
	}
	if !exist[shellTest] || !exist[productionTest] || !exist[statementTest] || !exist[loaderTest] {
		t.Error("a test that the lists speak of has another name")
	}
}

// testNames are the tests of the repository.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", "grep", "-hoE", "--untracked", `^func Test[A-Za-z0-9_]+`, "--", "*_test.go")
	cmd.Dir = ".."
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for line := range strings.Lines(string(out)) {
		names[strings.TrimSpace(strings.TrimPrefix(line, "func "))] = true
	}
	return names
}

// statements are the blocks of SQL, and what has to be there before them.
var statements = []struct{ page, has, before string }{
	{"operations.md", "CREATE ROLE waypost_app;", `alter role waypost_app rename to waypost_app_of_before`},
	{"operations.md", "CREATE ROLE waypost_service", ``},
	{"operations.md", "SELECT grant_viewer();", `alter role waypost_viewer rename to waypost_viewer_of_before`},
	{"operations.md", "ALTER ROLE waypost_app SET jit", `create role waypost_service`},
	{"operations.md", "FROM upload_usage", ``},
	{"audit.md", "cli:psql", ``},
	{"audit.md", "audit_cover('notes'", `create table notes (id bigint primary key, title text, secret_column text, last_read_at timestamptz)`},
	{"audit.md", "audit_excluded", `create table note_drafts (id bigint primary key)`},
	{"audit.md", "show_columns", `create table notes (id bigint primary key, title text, secret_column text, last_read_at timestamptz)`},
	{"audit.md", "set_config", ``},
	{"audit.md", "SELECT DISTINCT", ``},
	{"extending.md", "audit_cover", `create table notes (id bigint primary key, title text, secret_column text, last_read_at timestamptz)`},
}

// In a transaction that is rolled back: roles belong to the whole server.
func TestTheStatementsOfTheDocsAreAccepted(t *testing.T) {
	t.Parallel()
	urls := dbtest.NewURL(t)
	for _, c := range statements {
		sql := strings.ReplaceAll(snippetOf(t, c.page, c.has), "<the owner, and the user of DATABASE_URL>", "waypost_owner")
		conn, err := pgx.Connect(t.Context(), urls.Admin)
		if err != nil {
			t.Fatal(err)
		}
		tx, err := conn.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{c.before, sql} {
			if _, err := tx.Exec(t.Context(), text); err != nil {
				t.Errorf("%s: %v in\n%s", c.page, err, text)
				break
			}
		}
		_ = conn.Close(t.Context()) // which rolls back
	}
}

// Configuration is read by the program, and what is for other programs as what it is.
func TestTheFilesOfTheDocsAreRead(t *testing.T) {
	t.Parallel()
	count := map[string]int{}
	for _, s := range snippets(t) {
		if test, _ := testOf(s); test != loaderTest {
			continue
		}
		count[s.language]++
		if s.language == "json" {
			var v any
			if err := json.Unmarshal([]byte(s.text), &v); err != nil {
				t.Errorf("%s: %v in\n%s", s.page, err, s.text)
			}
			continue
		}
		file := filepath.Join(dbtest.TempDir(t), "waypost.yaml")
		if err := os.WriteFile(file, []byte(s.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if code, out, errOut := command(t, nil, "", "webhook", "check", "--config", file); code != 0 {
			t.Errorf("%s: exit %d, %s%s of\n%s", s.page, code, out, errOut, s.text)
		}
	}
	if languages := slices.Sorted(maps.Keys(count)); !slices.Equal(languages, []string{"json", "yaml"}) {
		t.Errorf("only %v were read", languages)
	}
}

// The block shows what is the same on every machine.
func TestDevPrintsWhatTheReadmeShows(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(dbtest.TempDir(t), "data")
	p := startDev(t, dir)
	printed := strings.Fields(p.stdout.String())
	for line := range strings.Lines(snippetOf(t, "README.md", "Waypost is ready.")) {
		words := strings.Fields(line)
		if len(words) < 2 {
			continue
		}
		label := words[:len(words)-1] // all that is no value
		for i, w := range label {
			if strings.HasPrefix(w, "http") || strings.Contains(w, "@") {
				label = label[:i]
				break
			}
		}
		if !strings.Contains(strings.Join(printed, " "), strings.Join(label, " ")) {
			t.Errorf("dev does not print %q:\n%s", strings.TrimSpace(line), p.stdout)
		}
	}
}
