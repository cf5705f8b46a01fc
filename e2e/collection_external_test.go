//go:build external

package e2e_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waypost/waypost/db/dbtest"
)

// Postman publishes the schema on its own site alone; the types are generated from it.
func TestTheCollectionIsOneByPostmansOwnSchema(t *testing.T) {
	t.Parallel()
	collection := collectionText(t)
	small := firstOfCollection(t, collection)
	type spoilt struct{ from, to string }
	cases := []spoilt{
		{`"name": "Waypost API"`, `"title": "Waypost API"`},
		{`"request": {`, `"requests": {`},
		{`"listen": "test"`, `"listen": 5`},
		{`"exec": [`, `"exec": [7, `},
		{`"key": "Accept"`, `"name": "Accept"`},
		{`"mode": "raw"`, `"mode": "json"`},
		{`"type": "bearer"`, `"type": "jwt"`},
		{`"code": 200`, `"code": "200"`},
	}
	args := []string{"collection.cjs", filepath.Join(dbtest.TempDir(t), "collection.json")}
	write := func(file string, text []byte) {
		if err := os.WriteFile(file, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(args[1], collection)
	for _, c := range cases {
		if !strings.Contains(small, c.from) {
			t.Fatalf("the collection has no %s", c.from)
		}
		file := filepath.Join(dbtest.TempDir(t), "spoilt.json")
		write(file, []byte(strings.Replace(small, c.from, c.to, 1)))
		args = append(args, file)
	}
	var problems [][]string
	if err := json.Unmarshal(run(t, npmTools(t), "node", args...), &problems); err != nil {
		t.Fatal(err)
	}
	if len(problems[0]) > 0 {
		t.Errorf("the schema refuses the collection: %s", strings.Join(problems[0], "\n"))
	}
	for i, c := range cases {
		if len(problems[i+1]) == 0 {
			t.Errorf("the schema accepts %s", c.to)
		}
	}
}

// firstOfCollection is a collection of its first request alone.
func firstOfCollection(t *testing.T, collection []byte) string {
	t.Helper()
	var c map[string]any
	if err := json.Unmarshal(collection, &c); err != nil {
		t.Fatal(err)
	}
	folder := c["item"].([]any)[0].(map[string]any)
	folder["item"] = folder["item"].([]any)[:1]
	c["item"] = []any{folder}
	small, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return string(small)
}
