package apidoc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"gopkg.in/yaml.v3"
)

// jsonToYAML writes the same document, keys in the same order. Whatever a YAML
// reader could take for another type than it is in JSON gets quotes.
func jsonToYAML(doc []byte) ([]byte, error) {
	dec := json.NewDecoder(bytes.NewReader(doc))
	dec.UseNumber()
	node, err := yamlNode(dec)
	if err != nil {
		return nil, fmt.Errorf("reading JSON: %w", err)
	}
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	if err := enc.Encode(node); err != nil {
		return nil, fmt.Errorf("writing YAML: %w", err)
	}
	return out.Bytes(), enc.Close()
}

func yamlNode(dec *json.Decoder) (*yaml.Node, error) {
	token, err := dec.Token()
	if err != nil {
		return nil, err
	}
	switch t := token.(type) {
	case json.Delim:
		return yamlCollection(dec, t)
	case string:
		return yamlText(t), nil
	case json.Number:
		return yamlNumber(t.String()), nil
	case bool:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: fmt.Sprint(t)}, nil
	case nil:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"}, nil
	}
	return nil, errors.New("an unexpected JSON token")
}

// yamlCollection reads an object or array whose opening delimiter is read.
func yamlCollection(dec *json.Decoder, open json.Delim) (*yaml.Node, error) {
	node := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
	if open == '{' {
		node = &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	}
	for dec.More() {
		child, err := yamlNode(dec) // of an object: keys and values in turn
		if err != nil {
			return nil, err
		}
		node.Content = append(node.Content, child)
	}
	if len(node.Content) == 0 {
		node.Style = yaml.FlowStyle
	}
	_, err := dec.Token() // the closing delimiter
	return node, err
}

// yamlText leaves unquoted only what reads as text to YAML 1.1 and 1.2 alike.
func yamlText(s string) *yaml.Node {
	node := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s, Style: yaml.DoubleQuotedStyle}
	switch {
	case isBlockText(s):
		node.Style = yaml.LiteralStyle
	case isPlainText(s):
		node.Style = 0
	}
	return node
}

// isPlainText is stricter than YAML: words that begin with a letter or a slash.
// No number or time does, and the few words that are a boolean or null to some
// reader are named here.
func isPlainText(s string) bool {
	if s == "" || !isLetter(s[0]) && s[0] != '/' {
		return false
	}
	switch strings.ToLower(s) {
	case "y", "n", "yes", "no", "on", "off", "true", "false", "null":
		return false
	}
	for i := range len(s) {
		if c := s[i]; !isLetter(c) && (c < '0' || c > '9') && !strings.ContainsRune(" /._-(),;+", rune(c)) {
			return false
		}
	}
	return s[len(s)-1] != ' '
}

// isBlockText is several lines of printable ASCII without blanks at the edges.
func isBlockText(s string) bool {
	if !strings.Contains(s, "\n") {
		return false
	}
	for line := range strings.SplitSeq(s, "\n") {
		if strings.TrimSpace(line) != line {
			return false
		}
		for i := range len(line) {
			if line[i] < ' ' || line[i] > '~' {
				return false
			}
		}
	}
	return s[0] != '\n' && s[len(s)-1] != '\n'
}

func isLetter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

// yamlNumber spells a float as YAML 1.1 wants it: with a point before the
// exponent and a sign in it.
func yamlNumber(s string) *yaml.Node {
	if !strings.ContainsAny(s, ".eE") {
		return &yaml.Node{Kind: yaml.ScalarNode, Value: s}
	}
	if mantissa, exponent, ok := strings.Cut(strings.ToLower(s), "e"); ok {
		if !strings.Contains(mantissa, ".") {
			mantissa += ".0"
		}
		if exponent[0] != '-' && exponent[0] != '+' {
			exponent = "+" + exponent
		}
		s = mantissa + "e" + exponent
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Value: s}
}
