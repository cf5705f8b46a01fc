package api

import (
	"bytes"
	"encoding/json"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/waypost/waypost/internal/apidoc/model"
)

// eachMember calls f for the members of a JSON object in their order, those of one
// name included; a value is f's until it returns. It refuses text that no reader
// keeps.
func eachMember(body []byte, f func(name string, value jsontext.Value)) error {
	if bytes.Contains(body, []byte(`\u0000`)) { // or a backslash and u0000, which is text like any other
		var object map[string]json.RawMessage
		if err := model.Format().Unmarshal(body, &object); err != nil {
			return err
		}
	}
	return members(body, f)
}

// members is eachMember with the decoder's own idea of text.
func members(body []byte, f func(name string, value jsontext.Value), o ...jsontext.Options) error {
	d := jsontext.NewDecoder(bytes.NewBuffer(body), append(o, jsontext.AllowDuplicateNames(true))...)
	if start, err := d.ReadToken(); err != nil || start.Kind() != jsontext.KindBeginObject {
		return errNotJSON
	}
	for d.PeekKind() != jsontext.KindEndObject {
		token, err := d.ReadToken()
		if err != nil {
			return err
		}
		name := token.String() // the token is gone with the next
		value, err := d.ReadValue()
		if err != nil {
			return err
		}
		f(name, value)
	}
	return nil
}

// textOf reads a JSON string.
func textOf(value jsontext.Value) (string, bool) {
	if value.Kind() != jsontext.KindString {
		return "", false
	}
	if plain := value[1 : len(value)-1]; !bytes.ContainsRune(plain, '\\') {
		return string(plain), true
	}
	text, err := jsontext.AppendUnquote(nil, value)
	return string(text), err == nil
}

// elements are those of a JSON list.
func elements(value jsontext.Value) ([]jsontext.Value, bool) {
	if value.Kind() != jsontext.KindBeginArray {
		return nil, false
	}
	value = bytes.Clone(value)
	var list []jsontext.Value
	d := jsontext.NewDecoder(bytes.NewBuffer(value), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if _, err := d.ReadToken(); err != nil {
		return nil, false
	}
	for d.PeekKind() != jsontext.KindEndArray {
		start := d.InputOffset()
		if err := d.SkipValue(); err != nil {
			return nil, false
		}
		list = append(list, bytes.TrimLeft(value[start:d.InputOffset()], ", \t\r\n"))
	}
	return list, true
}
