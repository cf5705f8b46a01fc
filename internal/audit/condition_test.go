package audit_test

import (
	"testing"

	"github.com/waypost/waypost/internal/audit"
)

func TestTheConditionTellsTheVerificationsAndWhatHasNoPlace(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	if c, err := f.Condition(t.Context()); err != nil || len(c.Verifications) != 0 || c.Waiting != 0 || !c.WaitingSince.IsZero() {
		t.Errorf("%v %+v", err, c)
	}
	f.addSite(t)
	c, err := f.Condition(t.Context())
	if err != nil || c.Waiting == 0 || c.WaitingSince.IsZero() {
		t.Errorf("%v %+v", err, c)
	}
	f.seal(t)
	if _, err := f.VerifyRecent(t.Context()); err != nil {
		t.Fatal(err)
	}
	c, err = f.Condition(t.Context())
	if err != nil || c.Waiting != 0 || !c.WaitingSince.IsZero() || len(c.Verifications) != 1 || c.Verifications[0].Kind != audit.KindRecent || c.Verifications[0].FirstBad != nil {
		t.Errorf("%v %+v", err, c)
	}
}
