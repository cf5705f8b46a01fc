package e2e_test

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// collectionText is the collection as the program prints it.
func collectionText(t *testing.T) []byte {
	t.Helper()
	code, out, errOut := command(t, nil, "", "openapi", "--format", "postman")
	if code != 0 {
		t.Fatal(errOut)
	}
	return []byte(out)
}

func TestTheCollectionKeepsTheRulesOfItsFormat(t *testing.T) {
	t.Parallel()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(collectionText(t)))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	schema, err := c.Compile("../internal/apidoc/export/testdata/postman-collection-2.1.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := schema.Validate(doc); err != nil {
		t.Error(err)
	}
}

// collected is a request of the collection.
type collected struct {
	Name  string
	Item  []collected
	Event []struct {
		Listen string
		Script struct{ Exec []string }
	}
	Request json.RawMessage
}

func (c collected) script(listen string) string {
	for _, e := range c.Event {
		if e.Listen == listen {
			return strings.Join(e.Script.Exec, "\n")
		}
	}
	return ""
}

var (
	usedVariable = regexp.MustCompile(`\{\{(\w+)\}\}|variables\.get\("(\w+)"\)`)
	setVariable  = regexp.MustCompile(`collectionVariables\.set\("(\w+)"`)
)

// names are those that a pattern finds in a text.
func names(pattern *regexp.Regexp, text string) []string {
	var out []string
	for _, m := range pattern.FindAllStringSubmatch(text, -1) {
		out = append(out, strings.Join(m[1:], ""))
	}
	return out
}

// fillIn are the variables that dev.env has the values of, and the address.
var fillIn = []string{"baseUrl", "adminEmail", "adminPassword", "siteKey", "siteApiKey", "paymentSecret", "codehostSecret"}

// An operation without a hint that it needs shows here first, without newman.
func TestTheCollectionUsesOnlyWhatEarlierRequestsSet(t *testing.T) {
	t.Parallel()
	var c struct{ Item []collected }
	if err := json.Unmarshal(collectionText(t), &c); err != nil {
		t.Fatal(err)
	}
	set := slices.Clone(fillIn)
	for _, folder := range c.Item {
		for _, r := range folder.Item {
			before := r.script("prerequest")
			for _, name := range names(usedVariable, before) {
				if !slices.Contains(set, name) {
					t.Errorf("%s: its script uses %s, which nothing has set", r.Name, name)
				}
			}
			set = append(set, names(setVariable, before)...)
			for _, name := range names(usedVariable, string(r.Request)) {
				if !slices.Contains(set, name) {
					t.Errorf("%s uses %s, which nothing has set", r.Name, name)
				}
			}
			set = append(set, names(setVariable, r.script("test"))...)
		}
	}
}

// ofOthers are requests about what nobody makes alone, so that they show an id that
// does not exist.
var ofOthers = []string{"Unlink an identity"}

func TestTheCollectionAsksForWhatItsRequestsMade(t *testing.T) {
	t.Parallel()
	var c struct{ Item []collected }
	if err := json.Unmarshal(collectionText(t), &c); err != nil {
		t.Fatal(err)
	}
	ids := 0
	for _, folder := range c.Item {
		for _, r := range folder.Item {
			var request struct {
				URL struct{ Variable []struct{ Key, Value string } }
			}
			if err := json.Unmarshal(r.Request, &request); err != nil {
				t.Fatal(err)
			}
			for _, v := range request.URL.Variable {
				if !strings.HasSuffix(v.Key, "id") || slices.Contains(ofOthers, r.Name) {
					continue
				}
				ids++
				if !usedVariable.MatchString(v.Value) {
					t.Errorf("%s is about %s %q, which nothing made: it lacks a hint for exports", r.Name, v.Key, v.Value)
				}
			}
		}
	}
	if ids < 15 {
		t.Errorf("only %d requests are about something", ids)
	}
}
