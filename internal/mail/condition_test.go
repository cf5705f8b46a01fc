package mail_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/mail"
)

func TestTheConditionTellsWhatWaitsAndWhatFailedLately(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	at := f.now.now()
	condition := func(want mail.Condition) {
		t.Helper()
		got, err := f.Condition(t.Context(), at.Add(-24*time.Hour))
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%v %s", err, diff)
		}
	}
	condition(mail.Condition{})
	set := func(id int64, sql string, args ...any) {
		t.Helper()
		if _, err := f.db.Single(identity.System("test")).Exec(t.Context(), "update mails set "+sql+" where id = $1", append([]any{id}, args...)...); err != nil {
			t.Fatal(err)
		}
	}
	var ids []int64
	for range 5 {
		ids = append(ids, f.put(t, anonymous(mail.VerifyEmail)))
	}
	set(ids[0], "status = 'failed', secret = null, secret_key_id = null")
	set(ids[1], "status = 'failed', secret = null, secret_key_id = null, queued_at = $2", at.Add(-25*time.Hour))
	set(ids[2], "attempts = 3")
	set(ids[3], "attempts = 2, queued_at = $2", at.Add(-time.Hour))
	condition(mail.Condition{Waiting: 3, Stuck: 1, WaitingSince: at.Add(-time.Hour), Failed: 1})
	off := f.again(t, func(o *mail.Options) { o.Transport = nil })
	if c, err := off.Condition(context.Background(), at); err != nil || !c.Off {
		t.Errorf("%v %+v", err, c)
	}
}
