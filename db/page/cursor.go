package page

import (
	"encoding/base64"
	"encoding/json"
)

// Encode makes an opaque cursor of a row's position, which must be what JSON can carry.
func Encode(position any) string {
	b, err := json.Marshal(position)
	if err != nil {
		panic("page: a cursor position that JSON can't carry: " + err.Error())
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

// Decode reads a cursor of Encode into position, and reports whether it is one of such a
// position. An empty cursor leaves position as it is.
func Decode(cursor string, position any) bool {
	if cursor == "" {
		return true
	}
	b, err := base64.RawURLEncoding.DecodeString(cursor)
	if err == nil {
		err = json.Unmarshal(b, position)
	}
	// Members of another list, or none, would decode to a zero position.
	return err == nil && Encode(position) == cursor
}
