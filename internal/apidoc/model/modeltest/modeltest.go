// Package modeltest lets tests hold documents against the schemas of models.
package modeltest

import "regexp"

var codePoint = regexp.MustCompile(`\\u([0-9A-F]{4})`)

// CompilePattern compiles a pattern as the schemas carry it: in the syntax of
// ECMA-262, in which JSON Schema wants it, and which writes a code point in another
// way than RE2.
func CompilePattern(pattern string) (*regexp.Regexp, error) {
	return regexp.Compile(codePoint.ReplaceAllString(pattern, `\x{$1}`))
}
