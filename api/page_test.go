package api

import (
	"encoding/base64"
	"testing"
	"time"

	"github.com/waypost/waypost/db/page"
	"github.com/waypost/waypost/internal/fault"
)

func TestOnlyACursorOfThisListIsTaken(t *testing.T) {
	t.Parallel()
	type position struct {
		At time.Time `json:"at"`
		ID int64     `json:"id"`
	}
	made := position{At: time.Date(2026, 1, 2, 3, 4, 5, 678901000, time.UTC), ID: 7}
	var got position
	if err := decodeCursor(page.Encode(made), &got); err != nil || !got.At.Equal(made.At) || got.ID != made.ID {
		t.Errorf("%+v, %v", got, err)
	}
	for _, content := range []string{`{}`, `null`, `{"a":1}`, `{"id":7}`, `[]`, `7`, ``, `{"at":"2026-01-02T03:04:05Z","id":7,"x":1}`} {
		cursor := base64.RawURLEncoding.EncodeToString([]byte(content))
		if content == "" {
			cursor = "!!"
		}
		if err := decodeCursor(cursor, new(position)); fault.KindOf(err) != fault.Invalid || err == nil {
			t.Errorf("%q: %v", content, err)
		}
	}
}

func TestAListThatIsAlwaysOnePageHasALimitWithinTheBounds(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]int{0: 1, 1: 1, 3: 3} {
		l := newWhole(make([]int, n), func(i int) int { return i })
		if l.Data == nil || len(l.Data) != n || l.Meta.Limit != want || l.Meta.HasMore || l.Meta.NextCursor != "" {
			t.Errorf("%d rows: %+v", n, l)
		}
	}
}
