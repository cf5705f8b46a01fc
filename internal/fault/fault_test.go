package fault_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/waypost/waypost/internal/fault"
)

func TestASentinelMatchesItsCopiesThroughWrapping(t *testing.T) {
	t.Parallel()
	sentinel := fault.New(fault.Conflict, "email_taken", "That e-mail address has an account.")
	cause := errors.New("driver text")
	err := fmt.Errorf("create user: %w", sentinel.Because(cause).With(map[string]string{"body.email": "taken"}).After(time.Second))

	if !errors.Is(err, sentinel) {
		t.Error("a copy with a cause, details and a delay no longer matches its sentinel")
	}
	if !errors.Is(err, cause) {
		t.Error("the cause is lost")
	}
	if errors.Is(err, fault.New(fault.Conflict, "last_admin", "")) {
		t.Error("another code of the same kind matches")
	}
	if got := fault.KindOf(err); got != fault.Conflict {
		t.Errorf("KindOf = %v, want Conflict", got)
	}
	if sentinel.Details != nil || sentinel.RetryAfter != 0 || sentinel.Unwrap() != nil {
		t.Error("the sentinel itself was changed")
	}
}

func TestAnUnclassifiedErrorIsInternal(t *testing.T) {
	t.Parallel()
	if got := fault.KindOf(errors.New("pq: relation does not exist")); got != fault.Internal {
		t.Errorf("KindOf = %v, want Internal", got)
	}
}
