package config

import (
	"fmt"
	"strings"
	"unicode"
)

const (
	// minSecretKey is the least length of WAYPOST_SECRET_KEY in bytes.
	minSecretKey = 32
	// minSurprises is how many steps a secret key must have: see surprises. Of 32 random
	// hexadecimal digits, the least varied key that anybody makes, one in a million has so few.
	minSurprises = 20
)

// placeholders are what documentation and examples have in the place of a key.
var placeholders = []string{"changeme", "changethis", "replaceme", "replacethis", "yoursecret", "yourkey", "secretkeyhere", "notsosecret"}

const makeKey = "`openssl rand -base64 48` makes a good one. If data was encrypted under this one, give it as WAYPOST_SECRET_KEY_PREVIOUS beside the new one"

// WeakSecretKey says what is wrong with the secret key, "" when nothing is.
func (c Config) WeakSecretKey() string { return secretKeyProblem(c.SecretKey) }

// secretKeyProblem says what is wrong with a secret key, "" when nothing is. It never
// quotes the key.
func secretKeyProblem(key string) string {
	switch {
	case key == "":
		return "WAYPOST_SECRET_KEY is not set: give 32 random bytes or more, such as the output of `openssl rand -base64 48`"
	case len(key) < minSecretKey:
		return fmt.Sprintf("WAYPOST_SECRET_KEY is weak: %d bytes, where %d or more are needed; `openssl rand -base64 48` makes one", len(key), minSecretKey)
	case strings.Count(key, key[:1]) == len(key):
		return "WAYPOST_SECRET_KEY is weak: it repeats one character; " + makeKey
	case isPlaceholder(key):
		return "WAYPOST_SECRET_KEY is weak: it is the placeholder of an example; " + makeKey
	case surprises(key) < minSurprises:
		return "WAYPOST_SECRET_KEY is weak: it repeats words or counts up, so that it is as easy to guess as a much shorter one; " + makeKey
	}
	return ""
}

// isPlaceholder looks at the letters alone.
func isPlaceholder(key string) bool {
	letters := strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, key)
	for _, p := range placeholders {
		if strings.Contains(letters, p) {
			return true
		}
	}
	return false
}

// surprises counts the steps of a greedy description of key, after LZ77: three bytes or
// more that stood before, in whatever case, or that count up or down or stay the same,
// are one step together, and any other byte is one by itself.
func surprises(key string) int {
	b := []byte(key)
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	n := 0
	for i := 0; i < len(b); n++ {
		length := max(repeated(b, i), counting(b[i:]))
		if length < 3 {
			length = 1
		}
		i += length
	}
	return n
}

// repeated is the length of the longest piece at i that begins before i as well.
func repeated(b []byte, i int) int {
	longest := 0
	for from := range i {
		n := 0
		for i+n < len(b) && b[from+n] == b[i+n] {
			n++
		}
		longest = max(longest, n)
	}
	return longest
}

// counting is the length of the beginning that goes up by one, goes down by one or stays.
func counting(b []byte) int {
	longest := 0
	for _, step := range []int{-1, 0, 1} {
		n := 1
		for n < len(b) && int(b[n])-int(b[n-1]) == step {
			n++
		}
		longest = max(longest, n)
	}
	return longest
}
