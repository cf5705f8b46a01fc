package account_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waypost/waypost/internal/account"
)

func TestEachEndOfASignInIsToldOnce(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	told := map[account.Outcome]int{}
	o := newOutside(t, func(o *account.Options) {
		o.Told = func(outcome account.Outcome) {
			mu.Lock()
			defer mu.Unlock()
			told[outcome]++
		}
	})
	o.member(t, "ada@example.com", true)
	o.enroll(t, o.signedIn(t, "ada@example.com")) // signed_in
	attempt := func(email, password string) account.SignedIn {
		s, _ := o.SignIn(t.Context(), email, password)
		return s
	}
	attempt("nobody@example.com", "a wrong password")
	s := attempt("ada@example.com", password) // wants a code
	if s.MFA == nil {
		t.Fatal("no challenge")
	}
	if _, err := o.VerifySecondFactor(t.Context(), s.MFA.Token, "000000"); err == nil {
		t.Fatal("a wrong code signs in")
	}
	for i := range 12 {
		attempt("ada@example.com", fmt.Sprint("a wrong password ", i))
	}
	mu.Lock()
	defer mu.Unlock()
	want := map[account.Outcome]int{
		account.SignedInWell: 1, account.AccountUnknown: 1, account.CodeWrong: 1, account.PasswordWrong: 10, account.Throttled: 2,
	}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Error(diff)
	}
}
