package account_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/internal/account"
	"github.com/waypost/waypost/internal/token"
)

// BenchmarkUnknownAndWrong measures abuse case 13: what a guess takes for an
// address that has an account and for one that has none, by turns, so that other
// work on the machine weighs on both. It reports both medians in milliseconds and
// their difference in per cent. Run it with -benchtime=200x for 200 tries each.
func BenchmarkUnknownAndWrong(b *testing.B) {
	d := dbtest.New(b)
	tokens, err := token.New(b.Context(), token.Options{DB: d, Issuer: "https://waypost.example", SecretKey: make([]byte, token.MinSecretKey)})
	if err != nil {
		b.Fatal(err)
	}
	s, err := account.New(account.Options{DB: d, Tokens: tokens})
	if err != nil {
		b.Fatal(err)
	}
	if _, err := s.Create(b.Context(), account.NewUser{FirstName: "Ada", LastName: "Lovelace", Email: "ada@example.com", Password: password}); err != nil {
		b.Fatal(err)
	}
	guess := func(email string) time.Duration {
		start := time.Now()
		_, err := s.SignIn(b.Context(), email, "wrong password")
		took := time.Since(start)
		if !errors.Is(err, account.ErrInvalidCredentials) {
			b.Fatal(err)
		}
		return took
	}
	var wrong, unknown []time.Duration
	for b.Loop() {
		wrong = append(wrong, guess("ada@example.com"))
		unknown = append(unknown, guess("eve@example.com"))
		// Neither comes to its limit.
		if _, err := d.Pool().Exec(b.Context(), `update throttles set count = 0`); err != nil {
			b.Fatal(err)
		}
	}
	slices.Sort(wrong)
	slices.Sort(unknown)
	w, u := wrong[len(wrong)/2].Seconds(), unknown[len(unknown)/2].Seconds()
	b.ReportMetric(w*1e3, "wrong-ms")
	b.ReportMetric(u*1e3, "unknown-ms")
	b.ReportMetric(100*(w-u)/w, "difference-%")
}
