// Package commonpassword knows the passwords that attackers try first.
//
// list.txt holds those of 8 characters or more, in lower case and NFC, sorted by
// their bytes, of the list that @zxcvbn-ts/language-common 3.0.4 (npm) publishes
// as passwords.json under the MIT licence, which is in LICENSE.txt; it goes back
// to the leaks that Mark Burnett gathered for zxcvbn.
package commonpassword

import (
	_ "embed"
	"strings"

	"golang.org/x/text/unicode/norm"
)

//go:embed list.txt
var list string

// Contains reports whether password is common, in whatever case.
func Contains(password string) bool {
	wanted := strings.ToLower(norm.NFC.String(password))
	low, high := 0, len(list) // both at the beginning of a line
	for low < high {
		middle := low + (high-low)/2
		start := strings.LastIndexByte(list[:middle], '\n') + 1
		line, _, _ := strings.Cut(list[start:], "\n")
		switch strings.Compare(wanted, line) {
		case 0:
			return true
		case -1:
			high = start
		default:
			low = start + len(line) + 1
		}
	}
	return false
}
