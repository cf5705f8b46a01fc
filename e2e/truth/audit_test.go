package truth_test

import (
	"net/http"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/e2e/outside"
)

// unaudited are operations that change things of which the log has nothing.
var unaudited = map[string]string{
	"collect-hit":              "statistics are excluded",
	"collect-events":           "statistics are excluded",
	"request-password-reset":   "the job that mails the link makes the token",
	"resend-verification-mail": "the job that mails the link makes the token",
}

// calledOnce is a call that was made, as the audit log must have it.
type calledOnce struct {
	operation, as, what, requestID string
	status                         int
}

// auditTrail is the calls of operations that may change something.
type auditTrail []calledOnce

func (t *auditTrail) add(o *operation, r request, a outside.Answer) {
	if o.method != http.MethodGet {
		*t = append(*t, calledOnce{o.id, r.caller, r.name, a.Header.Get("X-Request-ID"), a.Status})
	}
}

// check holds the whole log, sealed or not, against the calls: whatever succeeds and
// changes something has entries with its operationId and request id, and what is
// refused has none but notes.
func (trail auditTrail) check(t *testing.T, w *world) {
	t.Helper()
	noted, succeeded := trail.checkEach(t, w), map[string]bool{}
	for _, c := range trail {
		if c.status < 400 {
			succeeded[c.operation] = true
		}
	}
	for _, o := range w.described.operations {
		_, none := unaudited[o.id]
		switch {
		case o.method == http.MethodGet || !succeeded[o.id]:
		case none && noted[o.id]:
			t.Errorf("%s left entries, though %s", o.id, unaudited[o.id])
		case !none && !noted[o.id]:
			t.Errorf("%s succeeds and leaves no entry", o.id)
		}
	}
	if len(succeeded) == 0 {
		t.Error("nothing succeeded")
	}
}

// checkEach holds the log against each call by itself, and returns the operations that left
// an entry when they succeeded.
func (trail auditTrail) checkEach(t *testing.T, w *world) map[string]bool {
	t.Helper()
	rows, err := w.db.Direct().Query(t.Context(), `select request_id, coalesce(action, ''), op from audit_log where request_id is not null
		union all select request_id, coalesce(action, ''), op from audit_pending where request_id is not null`)
	if err != nil {
		t.Fatal(err)
	}
	type entry struct{ action, op string }
	entries := map[string][]entry{}
	var id string
	var e entry
	_, err = pgx.ForEachRow(rows, []any{&id, &e.action, &e.op}, func() error {
		entries[id] = append(entries[id], e)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	noted := map[string]bool{}
	for _, c := range trail {
		if c.requestID == "" {
			t.Errorf("%s, %s: an answer without a request id", c.operation, c.what)
		}
		for _, e := range entries[c.requestID] {
			switch {
			case e.action != c.operation:
				t.Errorf("%s, %s as %s: an entry with the action %q", c.operation, c.what, c.as, e.action)
			// A refresh token that is used twice is refused, and ends its session. A call that
			// a model's service fails is booked. Which file it is is known once it is there.
			case c.status >= 400 && e.op != "note" && !slices.Contains([]string{"refresh-session", "create-chat-completion", "create-embeddings", "create-upload"}, c.operation):
				t.Errorf("%s, %s as %s, is answered %d and left an entry: %s", c.operation, c.what, c.as, c.status, e.op)
			case c.status < 400:
				noted[c.operation] = true
			}
		}
	}
	return noted
}
