// Package export turns an OpenAPI description into what API clients import: a
// Postman Collection v2.1 and Insomnia's v4 (JSON) and v5 (YAML) forms.
//
// The description is the only source. What it has no member for, such as the
// order in which requests can succeed one after another, or how a delivery is
// signed, is said in the extension "x-waypost-export": see Root, SchemeHints and
// Hints. Strip removes it from a description that is to be served.
//
// Equal descriptions give equal bytes: ids are derived from operationIds, and no
// date or randomness gets in.
package export

import (
	"bytes"
	"encoding/json"
	"fmt"

	"gopkg.in/yaml.v3"
)

// Collections are what API clients import of one description.
type Collections struct{ plan *plan }

// Read reads a description (JSON, OpenAPI 3.0 or 3.1). It fails for one that is
// not readable or whose hints contradict it.
func Read(description []byte) (*Collections, error) {
	p, err := newPlan(description)
	if err != nil {
		return nil, fmt.Errorf("exports: %w", err)
	}
	return &Collections{p}, nil
}

// Postman returns a Postman Collection v2.1, whose requests newman can run in order.
func (c *Collections) Postman() ([]byte, error) { return indent(newPostmanCollection(c.plan)) }

// Insomnia returns an Insomnia v4 export, which every version of the application
// reads.
func (c *Collections) Insomnia() ([]byte, error) { return indent(newInsomniaExport(c.plan)) }

// InsomniaV5 returns Insomnia's v5 YAML, for version 11 of the application and newer.
func (c *Collections) InsomniaV5() ([]byte, error) {
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	if err := enc.Encode(newInsomniaFile(c.plan)); err != nil {
		return nil, fmt.Errorf("exports: %w", err)
	}
	return out.Bytes(), enc.Close()
}

// indent encodes v for people to read too: & and < stay as they are.
func indent(v any) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(v)
	return out.Bytes(), err
}
