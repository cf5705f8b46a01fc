package queue

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// blanked stands where a secret was.
const blanked = "[redacted]"

// tooLarge stands for arguments over MaxArgs.
var tooLarge = json.RawMessage(`{"omitted":"The arguments are too large to be shown."}`)

// Members whose name holds one of secretParts are secret, and those with one of
// secretWords among the words of their name: "site_key", "resetLink", "code".
var (
	secretParts = []string{"password", "passwd", "passphrase", "secret", "token", "credential", "authorization", "cookie", "signature", "apikey", "privatekey", "otp"}
	secretWords = []string{"key", "keys", "code", "codes", "link", "links", "auth", "bearer", "pin", "salt", "sig"}
)

// shapes are secrets that are recognised by what they look like: tokens of ours and of
// others, JSON web tokens, credentials in headers and URLs, and URLs' parameters that
// have a secret's name.
var shapes = []struct {
	is *regexp.Regexp
	by string
}{
	{regexp.MustCompile(`\b(?:wp[a-z]*|whsec|[sr]k|gh[a-z]|github_pat|xox[a-z]|glpat)[_-][A-Za-z0-9_-]{8,}`), blanked},
	{regexp.MustCompile(`\beyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]*)?`), blanked},
	{regexp.MustCompile(`(?i)\b(bearer|basic)\s+[A-Za-z0-9+/=._~-]{6,}`), "$1 " + blanked},
	{regexp.MustCompile(`(?i)\b([a-z][a-z0-9+.-]*://)[^/\s@"'?#]*@`), "${1}" + blanked + "@"},
	{regexp.MustCompile(`(?i)([?&#;][^=&#;\s]*(?:token|key|code|secret|passw|sign|sig|link|auth|cred|session)[^=&#;\s]*=)[^&#;\s"'<>]+`), "${1}" + blanked},
	{regexp.MustCompile(`(?i)\b((?:password|passwd|passphrase|secret|token|api[_-]?key|authorization)"?\s*[=:]\s*)"?[^\s"',;]+"?`), "${1}" + blanked},
}

// blankArgs returns a JSON object without its secrets. It keeps to MaxArgs.
func blankArgs(args []byte) json.RawMessage {
	decoder := json.NewDecoder(bytes.NewReader(args))
	decoder.UseNumber() // ids keep their digits
	var v any
	if err := decoder.Decode(&v); err != nil {
		return tooLarge // it has been cut
	}
	out, err := marshal(blank(v))
	if err != nil || len(out) > MaxArgs {
		return tooLarge
	}
	return out
}

// marshal is json.Marshal without the escapes for HTML.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSpace(b.Bytes()), err
}

func blank(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			delete(v, name)
			if shown := blankText(name); isSecret(name) {
				v[shown] = blanked
			} else {
				v[shown] = blank(value)
			}
		}
	case []any:
		for i := range v {
			v[i] = blank(v[i])
		}
	case string:
		return blankText(v)
	}
	return v
}

// blankText returns s without what looks like a secret.
func blankText(s string) string {
	for _, shape := range shapes {
		s = shape.is.ReplaceAllString(s, shape.by)
	}
	return s
}

// isSecret reports whether a member of that name holds a secret, whatever it looks like.
func isSecret(name string) bool {
	list := words(name)
	joined := strings.Join(list, "")
	return slices.ContainsFunc(secretParts, func(part string) bool { return strings.Contains(joined, part) }) ||
		slices.ContainsFunc(list, func(word string) bool { return slices.Contains(secretWords, word) })
}

// words splits a name at its capitals and at what is no letter, in lower case:
// "resetLink" and "reset_link" alike.
func words(name string) []string {
	var list []string
	var word strings.Builder
	end := func() {
		if word.Len() > 0 {
			list = append(list, word.String())
			word.Reset()
		}
	}
	lower := false
	for _, r := range name {
		switch {
		case !unicode.IsLetter(r):
			end()
		case unicode.IsUpper(r) && lower:
			end()
			fallthrough
		default:
			word.WriteRune(unicode.ToLower(r))
		}
		lower = unicode.IsLower(r)
	}
	end()
	return list
}

// ErrorText is what may be kept and shown of an error: at most MaxErrorText characters
// that the database takes, without what looks like a secret.
func ErrorText(err error) string {
	text := []rune(strings.ToValidUTF8(strings.ReplaceAll(err.Error(), "\x00", ""), "\uFFFD"))
	return blankText(string(text[:min(len(text), MaxErrorText)]))
}
