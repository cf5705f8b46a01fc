package upload_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/waypost/waypost/internal/upload"
)

// Files that are sent and read at once share transactions, and nothing else.
func TestFilesThatAreSentAtOnceKeepTheirOwnersTheirBytesAndTheirNamesInTheAuditLog(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const each = 30
	var mu sync.Mutex
	var all sync.WaitGroup
	sent := map[int64]int{} // whose they are, by id
	for i := range 2 * each {
		all.Go(func() {
			owner, content := i%2, fmt.Sprint("content ", i)
			u, err := f.sendAs(owner, upload.File{Filename: fmt.Sprint(i), Expected: int64(len(content))}, content)
			if err != nil || u.OwnerID != f.owners[owner] || u.Filename != fmt.Sprint(i) || u.Size != int64(len(content)) {
				t.Errorf("%d: %+v, %v", i, u, err)
				return
			}
			c, err := f.Open(f.as(owner), u.ID, "")
			if err != nil {
				t.Errorf("%d: %v", i, err)
				return
			}
			defer c.Close()
			got := make([]byte, c.Size())
			if _, err := c.Read(got); err != nil || string(got) != content {
				t.Errorf("%d: read %q, %v", i, got, err)
			}
			if _, err := f.Open(f.as(1-owner), u.ID, ""); !errors.Is(err, upload.ErrNoUpload) {
				t.Errorf("%d: somebody else's: %v", i, err)
			}
			mu.Lock()
			defer mu.Unlock()
			sent[u.ID] = owner
		})
	}
	all.Wait()
	rows, err := f.db.Direct().Query(t.Context(), `select row_id::bigint, actor_id::bigint, action, changes from audit_pending where table_name = 'uploads'`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	entries := 0
	for ; rows.Next(); entries++ {
		var id, actor int64
		var action, changes string
		if err := rows.Scan(&id, &actor, &action, &changes); err != nil {
			t.Fatal(err)
		}
		if want := f.owners[sent[id]]; actor != want || action != "test" || strings.Contains(changes, `"owner_id"`) && !strings.Contains(changes, fmt.Sprintf(`"owner_id": %d`, want)) {
			t.Errorf("an entry of file %d of %d names %d, %s: %s", id, want, actor, action, changes)
		}
	}
	if err := rows.Err(); err != nil || entries != 2*len(sent) || len(sent) != 2*each {
		t.Errorf("%d entries of %d files, %v", entries, len(sent), err)
	}
}
