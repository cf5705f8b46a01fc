package description_test

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waypost/waypost/internal/apidoc"
)

// An operation's id is the name of its function in generated clients, of its tool
// for assistants and of what it did in records, so it says alone what is done to
// what, and stays for ever.

// operations are a description's, by method and path; those of webhooks, which
// others send us, by method and the webhook's name.
type operations struct {
	version         string
	paths, webhooks map[string]operation
}

type operation struct {
	id, method, path string
	lists            bool // the answer is {data, meta}
}

func readOperations(t *testing.T, raw []byte) operations {
	t.Helper()
	type described struct {
		OperationID string
		Responses   map[string]struct {
			Content map[string]struct {
				Schema struct {
					Ref string `json:"$ref"`
				}
			}
		}
	}
	var doc struct {
		Info            struct{ Version string }
		Paths, Webhooks map[string]map[string]described
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	section := func(items map[string]map[string]described) map[string]operation {
		found := map[string]operation{}
		for path, item := range items {
			for method, o := range item {
				method = strings.ToUpper(method)
				answer := o.Responses["200"].Content["application/json"].Schema.Ref
				found[method+" "+path] = operation{o.OperationID, method, path, strings.HasPrefix(answer, "#/components/schemas/List")}
			}
		}
		return found
	}
	return operations{doc.Info.Version, section(doc.Paths), section(doc.Webhooks)}
}

func TestAReleasedOperationKeepsItsID(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../api/released/*.json.gz")
	if err != nil || len(files) == 0 {
		t.Fatalf("released descriptions: %v, %v", files, err)
	}
	now := readOperations(t, form(t, apidoc.JSON))
	for _, file := range files {
		released := readOperations(t, decompressed(t, file))
		if len(released.paths) < 50 {
			t.Errorf("%s has %d operations", file, len(released.paths))
		}
		for _, problem := range lost(released, now) {
			t.Errorf("%s: %s: give it back. Clients, assistants and records know an operation by its id, so a released id is neither changed nor taken away",
				filepath.Base(file), problem)
		}
	}
}

func decompressed(t *testing.T, file string) []byte {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	b, err := io.ReadAll(z)
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return b
}

// lost says which operations that were released have another id now, or are gone,
// as only a new major version allows.
func lost(released, now operations) []string {
	var problems []string
	compare := func(released, current map[string]operation, mayGo bool) {
		for _, name := range slices.Sorted(maps.Keys(released)) {
			was := released[name].id
			switch is, there := current[name]; {
			case !there && !mayGo:
				problems = append(problems, fmt.Sprintf("%s, released as %s, is gone", name, was))
			case there && is.id != was:
				problems = append(problems, fmt.Sprintf("%s, released as %s, is %s now", name, was, is.id))
			}
		}
	}
	mayGo := major(now.version) > major(released.version)
	compare(released.paths, now.paths, mayGo)
	compare(released.webhooks, now.webhooks, mayGo)
	return problems
}

// major is the first number of a version, 0 if there is none.
func major(version string) int {
	first, _, _ := strings.Cut(version, ".")
	n, _ := strconv.Atoi(first)
	return n
}

func TestALostIDIsFound(t *testing.T) {
	t.Parallel()
	doc := func(version, id, path, webhook string) operations {
		return readOperations(t, fmt.Appendf(nil, `{"info":{"version":%q},"paths":{%q:{"get":{"operationId":%q}}},
			"webhooks":{"payment":{"post":{"operationId":%q}}}}`, version, path, id, webhook))
	}
	released := doc("1.9.0", "list-posts", "/posts", "deliver-payment-webhook")
	for _, c := range []struct {
		now  operations
		want []string
	}{
		{released, nil},
		{doc("1.10.0", "get-posts", "/posts", "deliver-payment-webhook"), []string{"GET /posts, released as list-posts, is get-posts now"}},
		{doc("2.0.0", "get-posts", "/posts", "deliver-payment-webhook"), []string{"GET /posts, released as list-posts, is get-posts now"}},
		{doc("1.10.0", "list-posts", "/texts", "deliver-payment-webhook"), []string{"GET /posts, released as list-posts, is gone"}},
		{doc("2.0.0", "list-posts", "/texts", "deliver-payment-webhook"), nil},
		{doc("1.10.0", "list-posts", "/posts", "pay"), []string{"POST payment, released as deliver-payment-webhook, is pay now"}},
	} {
		if diff := cmp.Diff(c.want, lost(released, c.now)); diff != "" {
			t.Error(diff)
		}
	}
}

// verbs are those of each method. What a POST does has a verb of its own.
var verbs = map[string][]string{
	"GET":    {"get", "list"},
	"PATCH":  {"update"},
	"PUT":    {"put"}, // absent fields stay, so it replaces nothing
	"DELETE": {"delete", "revoke", "end", "unlink"},
}

// exceptions from the rules for ids, with their reasons.
var exceptions = map[string]string{
	"login":              "everybody's word",
	"logout":             "everybody's word",
	"start-oauth-login":  "a link that a browser follows",
	"finish-oauth-login": "where the provider sends the browser",
	"link-identity":      "it is the provider's: nothing is created",
}

// longestID is what the interfaces of language models take as a tool's name.
const longestID = 64

var kebabCase = regexp.MustCompile(`^[a-z]+(-[a-z0-9]+)+$`)

func TestAnOperationsIDSaysWhatItDoesToWhat(t *testing.T) {
	t.Parallel()
	now := readOperations(t, form(t, apidoc.JSON)).paths
	for _, problem := range unclear(now) {
		t.Error(problem)
	}
	for id := range exceptions {
		if !slices.ContainsFunc(slices.Collect(maps.Values(now)), func(o operation) bool { return o.id == id }) {
			t.Errorf("no operation is %s: take the exception away", id)
		}
	}
}

// unclear says which ids break the rules: verb and noun in kebab-case, the verb a
// verb of the method, the noun the same for everything that is done to one thing.
func unclear(all map[string]operation) []string {
	var problems []string
	nouns := map[string]string{} // by the path of one thing
	for _, name := range slices.Sorted(maps.Keys(all)) {
		o := all[name]
		wrong := func(format string, args ...any) {
			problems = append(problems, fmt.Sprintf("%s: %s: ", name, o.id)+fmt.Sprintf(format, args...))
		}
		if exceptions[o.id] != "" {
			continue
		}
		if !kebabCase.MatchString(o.id) || len(o.id) > longestID {
			wrong("an id is a verb and a noun in kebab-case, of at most %d characters", longestID)
		}
		verb, noun, _ := strings.Cut(o.id, "-")
		switch {
		case o.method == "POST":
			if slices.Contains([]string{"get", "list", "update", "put", "delete"}, verb) {
				wrong("%s- is another method's verb", verb)
			}
			if all["GET "+o.path].lists && verb != "create" {
				wrong("what is posted where a list is read is made by create-")
			}
		case !slices.Contains(verbs[o.method], verb):
			wrong("the verbs of %s are %s", o.method, strings.Join(verbs[o.method], ", "))
		case o.lists != (verb == "list"):
			wrong("list- is for what answers {data, meta}, get- for everything else")
		}
		if strings.HasSuffix(o.path, "}") && o.method != "POST" {
			if other, known := nouns[o.path]; known && other != noun {
				wrong("its path has another operation on a %s", other)
			}
			nouns[o.path] = noun
		}
	}
	return problems
}

func TestAnUnclearIDIsFound(t *testing.T) {
	t.Parallel()
	list := map[string]operation{"GET /posts": {"list-posts", "GET", "/posts", true}}
	for _, c := range []struct {
		o     operation
		clear bool
	}{
		{operation{"get-post", "GET", "/posts/{id}", false}, true},
		{operation{"list-post", "GET", "/posts/{id}", false}, false},
		{operation{"get-drafts", "GET", "/drafts", true}, false},
		{operation{"create-post", "POST", "/posts", false}, true},
		{operation{"write-post", "POST", "/posts", false}, false},
		{operation{"publish-post", "POST", "/posts/{id}/publish", false}, true},
		{operation{"publish", "POST", "/posts/{id}/publish", false}, false},
		{operation{"update-post", "POST", "/posts/{id}/publish", false}, false},
		{operation{"publishPost", "POST", "/posts/{id}/publish", false}, false},
		{operation{"publish-" + strings.Repeat("post", 15), "POST", "/publish", false}, false},
		{operation{"update-post", "PATCH", "/posts/{id}", false}, true},
		{operation{"patch-post", "PATCH", "/posts/{id}", false}, false},
		{operation{"put-post", "PUT", "/posts/{id}", false}, true},
		{operation{"replace-post", "PUT", "/posts/{id}", false}, false},
		{operation{"revoke-token", "DELETE", "/tokens/{id}", false}, true},
		{operation{"remove-token", "DELETE", "/tokens/{id}", false}, false},
	} {
		all := maps.Clone(list)
		all[c.o.method+" "+c.o.path] = c.o
		if problems := unclear(all); (len(problems) == 0) != c.clear {
			t.Errorf("%s %s %s: %q", c.o.method, c.o.path, c.o.id, problems)
		}
	}
	twoNouns := map[string]operation{
		"GET /posts/{id}": {"get-post", "GET", "/posts/{id}", false}, "DELETE /posts/{id}": {"delete-text", "DELETE", "/posts/{id}", false},
	}
	if len(unclear(twoNouns)) != 1 {
		t.Error("get-post and delete-text have one path")
	}
}
