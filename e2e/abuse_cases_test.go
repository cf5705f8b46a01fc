package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// abuseCases are the numbers of those whose part of the program there is.
var abuseCases = append(numbers(1, 55), 58, 60)

func numbers(from, to int) []int {
	var list []int
	for n := from; n <= to; n++ {
		list = append(list, n)
	}
	return list
}

var (
	abuseRow  = regexp.MustCompile(`(?m)^\| (\d+) \|.*\| ([^|]*) \|$`)
	abuseTest = regexp.MustCompile("`(\\S+) (Test\\w+)(?:/(abuse \\d+))?`")
)

// Every abuse case is in the documentation, with tests that exist and carry its
// number: in their name, or in a subtest's.
func TestEveryAbuseCaseNamesTestsThatExist(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "docs", "security.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "<!-- abuse-cases -->")
	table, _, found := strings.Cut(table, "<!-- /abuse-cases -->")
	if !found {
		t.Fatal("docs/security.md has no table of abuse cases")
	}
	rows := abuseRow.FindAllStringSubmatch(table, -1)
	if len(rows) != len(abuseCases) {
		t.Fatalf("%d rows, want %d", len(rows), len(abuseCases))
	}
	for i, row := range rows {
		number := fmt.Sprint(abuseCases[i])
		if row[1] != number {
			t.Fatalf("row %s where %s belongs", row[1], number)
		}
		tests := abuseTest.FindAllStringSubmatch(row[2], -1)
		if len(tests) == 0 {
			t.Errorf("case %s names no test in %q", number, row[2])
		}
		for _, test := range tests {
			if err := carriesCase(test[1], test[2], test[3], abuseCases[i]); err != nil {
				t.Errorf("case %s: %v", number, err)
			}
		}
	}
}

// carriesCase says what a test in the directory of a package lacks to be one of
// case n.
func carriesCase(directory, name, subtest string, n int) error {
	files, err := filepath.Glob(filepath.Join("..", directory, "*_test.go"))
	if err != nil {
		return err
	}
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if !strings.Contains(string(source), "func "+name+"(t *testing.T)") {
			continue
		}
		inName := regexp.MustCompile(fmt.Sprintf(`(Case|And)0?%d(And|[A-Z])`, n)).MatchString(name)
		inSubtest := subtest == fmt.Sprintf("abuse %d", n) && strings.Contains(string(source), `"`+subtest+": ")
		if !inName && !inSubtest {
			return fmt.Errorf("%s %s does not carry the number", directory, name)
		}
		return nil
	}
	return fmt.Errorf("there is no test %s in %s", name, directory)
}
