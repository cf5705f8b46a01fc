package commonpassword_test

import (
	"os"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/waypost/waypost/internal/account/commonpassword"
)

func TestEveryPasswordOfTheListIsFoundInAnyCase(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("list.txt")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
	if len(lines) < 10_000 || !slices.IsSorted(lines) {
		t.Fatalf("%d lines, sorted %v", len(lines), slices.IsSorted(lines))
	}
	for _, line := range lines {
		if !commonpassword.Contains(line) || !commonpassword.Contains(strings.ToUpper(line)) && strings.ToLower(strings.ToUpper(line)) == line {
			t.Errorf("%q is not found", line)
		}
		if utf8.RuneCountInString(line) < 8 {
			t.Errorf("%q is too short to be chosen anyway", line)
		}
	}
	for _, line := range lines {
		if near := line + "\x00"; commonpassword.Contains(near) {
			t.Errorf("%q is found", near)
		}
	}
}

func TestOtherPasswordsAreNotCommon(t *testing.T) {
	t.Parallel()
	for _, p := range []string{"", "\n", "p", "correct horse battery staple", "password\n", "\npassword", "zzzzzzzzzzzzzzzzzzzzzzzz", "\x00", "!"} {
		if commonpassword.Contains(p) {
			t.Errorf("%q counts as common", p)
		}
	}
}
