package db

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestConnectionsAreDividedAmongTheAreas(t *testing.T) {
	t.Parallel()
	for n, want := range map[int32]string{
		10:  "requests 2, deliveries 2, collection 1, questions 1, background 2, readiness 1, audit 1",
		17:  "requests 4, deliveries 5, collection 3, questions 1, background 2, readiness 1, audit 1",
		25:  "requests 6, deliveries 7, collection 4, questions 2, background 4, readiness 1, audit 1",
		101: "requests 25, deliveries 33, collection 17, questions 8, background 16, readiness 1, audit 1",
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
	if diff := cmp.Diff("db: 9 connections are too few: the areas of the service need 10 or more", fmt.Sprint(err)); diff != "" {
		t.Error(diff)
	}
}
