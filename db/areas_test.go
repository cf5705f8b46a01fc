package db

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestConnectionsAreDividedAmongTheAreas(t *testing.T) {
	t.Parallel()
	for n, want := range map[int32]string{
		12:  "requests 2, deliveries 2, collection 1, questions 1, background 3, readiness 1, alive 1, audit 1",
		18:  "requests 4, deliveries 5, collection 2, questions 1, background 3, readiness 1, alive 1, audit 1",
		26:  "requests 6, deliveries 7, collection 4, questions 2, background 4, readiness 1, alive 1, audit 1",
		100: "requests 26, deliveries 29, collection 15, questions 8, background 19, readiness 1, alive 1, audit 1",
	} {
		parts, err := divide(n)
		if err != nil {
			t.Fatal(err)
		}
		got, sum := "", int32(0)
		for i, s := range shares {
			if i > 0 {
				got += ", "
			}
			got += fmt.Sprint(s.name, " ", parts[i])
			sum += parts[i]
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%d connections: %s", n, diff)
		}
		if sum != n {
			t.Errorf("%d connections became %d", n, sum)
		}
	}
}

func TestTooFewConnectionsAreRefusedWithTheSmallestNumber(t *testing.T) {
	t.Parallel()
	_, err := divide(LeastConns() - 1)
	if diff := cmp.Diff("db: 11 connections are too few: the areas of the service need 12 or more", fmt.Sprint(err)); diff != "" {
		t.Error(diff)
	}
}
