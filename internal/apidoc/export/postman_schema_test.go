package export_test

import (
	"bytes"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

func collectionSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	schema, err := c.Compile("testdata/postman-collection-2.1.json")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

func collectionOf(t *testing.T, description []byte) any {
	t.Helper()
	raw, err := postman(description)
	if err != nil {
		t.Fatal(err)
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestACollectionKeepsTheRulesOfItsFormat(t *testing.T) {
	t.Parallel()
	schema := collectionSchema(t)
	for name, description := range map[string][]byte{"bookshop": bookshop(t), "guests": []byte(guests)} {
		if err := schema.Validate(collectionOf(t, description)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTheRulesOfTheFormatRefuseWhatPostmanWould(t *testing.T) {
	t.Parallel()
	schema := collectionSchema(t)
	type object = map[string]any
	first := func(list any) object { return list.([]any)[0].(object) }
	signIn := func(c object) object { return first(first(c["item"])["item"]) }
	for name, spoil := range map[string]func(c object){
		"no schema": func(c object) { delete(c["info"].(object), "schema") },
		"another version": func(c object) {
			c["info"].(object)["schema"] = "https://schema.getpostman.com/json/collection/v2.0.0/collection.json"
		},
		"no items":                 func(c object) { delete(c, "item") },
		"a folder that is a call":  func(c object) { first(c["item"])["request"] = signIn(c)["request"] },
		"a call without a request": func(c object) { delete(signIn(c), "request") },
		"an unknown member":        func(c object) { signIn(c)["requests"] = []any{} },
		"an unknown event":         func(c object) { first(signIn(c)["event"])["listen"] = "before" },
		"a script that is text":    func(c object) { first(signIn(c)["event"])["script"] = "pm.test()" },
		"a body of no mode":        func(c object) { signIn(c)["request"].(object)["body"].(object)["mode"] = "json" },
		"a header without a value": func(c object) { delete(first(signIn(c)["request"].(object)["header"]), "value") },
		"an auth of no type":       func(c object) { delete(c["auth"].(object), "type") },
		"an auth with no token":    func(c object) { delete(c["auth"].(object), "bearer") },
		"a variable without a key": func(c object) { delete(first(c["variable"]), "key") },
		"a status that is text":    func(c object) { first(signIn(c)["response"])["code"] = "200" },
	} {
		c := collectionOf(t, bookshop(t)).(object)
		spoil(c)
		if schema.Validate(c) == nil {
			t.Errorf("%s: is accepted", name)
		}
	}
}
