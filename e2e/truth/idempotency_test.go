package truth_test

import (
	"bytes"
	"net/http"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/e2e/outside"
)

const (
	keyHeader      = "Idempotency-Key"
	replayedHeader = "Idempotency-Replayed"
)

// takesKey reports whether an operation documents the header of repeatable requests.
func (o *operation) takesKey() bool {
	return slices.ContainsFunc(o.doc.Parameters, func(p parameter) bool { return p.In == "header" && p.Name == keyHeader })
}

// repeat sends requests with a key again: the answer is the same, or a refusal where it has
// a secret.
func (w *world) repeat(t *testing.T, o *operation, call func(request) outside.Answer) {
	t.Helper()
	if !o.takesKey() {
		return
	}
	keyed := func(name, key string) request {
		r := w.valid(t, o, w.whoMay(o)[0])
		r.name, r.header = name, append(slices.Clone(r.header), keyHeader, key)
		return r
	}
	r := keyed("with a key", "key-"+w.next())
	first, again := call(r), call(r)
	_, kept := o.doc.Responses[strconv.Itoa(first.Status)].Headers[replayedHeader]
	switch {
	case first.Status >= 300:
		t.Errorf("with a key: %d %s", first.Status, first.Body)
	case kept && (again.Status != first.Status || !bytes.Equal(again.Body, first.Body) || again.Header.Get(replayedHeader) != "true" || again.Header.Get("Location") != first.Header.Get("Location")):
		t.Errorf("again: %d %v %s, after %s", again.Status, again.Header, again.Body, first.Body)
	case !kept && again.ErrorCode() != "idempotency_key_reused":
		t.Errorf("again: %d %s", again.Status, again.Body)
	}
	other := r
	other.name, other.malformed = "another request with the key", "other=1"
	if a := call(other); a.ErrorCode() != "idempotency_key_reused" {
		t.Errorf("another request with the key: %d %s", a.Status, a.Body)
	}
	if a := call(keyed("not a key", "ä ö")); a.Status != http.StatusUnprocessableEntity {
		t.Errorf("not a key: %d %s", a.Status, a.Body)
	}
	w.repeatAtOnce(t, o, keyed("at once", "key-"+w.next()), call)
}

// repeatAtOnce sends a request again while it is still at work.
func (w *world) repeatAtOnce(t *testing.T, o *operation, r request, call func(request) outside.Answer) {
	t.Helper()
	unlock := dbtest.Lock(t, w.database.Owner, "lock table idempotency_keys in share mode") // which storing the answer waits for
	done := make(chan outside.Answer, 1)
	go func() { done <- w.send(t, o, r) }()
	for waits := 0; waits == 0; {
		if err := w.db.Direct().QueryRow(t.Context(), `select count(*) from pg_locks where relation = 'idempotency_keys'::regclass and not granted`).Scan(&waits); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
	second := call(r)
	unlock()
	if first := <-done; first.Status >= 300 || second.ErrorCode() != "idempotency_key_in_flight" {
		t.Errorf("at once: %d %s, and %d %s", first.Status, first.Body, second.Status, second.Body)
	}
}
