package account

import (
	"regexp"
	"strings"
)

// emailForm is an address of RFC 5321's Dot-string form. ASCII alone, so that two
// addresses that look alike are not two accounts.
var emailForm = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(\\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*" +
	"@[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?(\\.[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*$")

// maxLocalPart is in octets (RFC 5321 section 4.5.3.1.1).
const maxLocalPart = 64

func validEmail(s string) bool {
	return len(s) <= MaxEmail && strings.IndexByte(s, '@') <= maxLocalPart && emailForm.MatchString(s)
}

// emailKey is what is unique about an address. Case is without meaning in domains,
// and in practice before the @ as well.
func emailKey(s string) string { return strings.ToLower(strings.TrimSpace(s)) }
