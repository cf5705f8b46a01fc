package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/waypost/waypost/internal/account"
)

const (
	loginTries   = 200
	loginWarmups = 10
	// loginDiffer is how far apart the two medians may be, as a part of one.
	loginDiffer = 0.05
)

// loginTimingFigure guesses a password of an account and of none, in rounds, so
// that other work on the machine weighs on both (abuse case 13). A second unknown
// address shows how far apart two medians of the same thing are here.
func loginTimingFigure(ctx context.Context, w *world) error {
	accounts, err := account.New(account.Options{DB: w.db})
	if err != nil {
		return err
	}
	const known, unknown, stranger = "ada@example.com", "eve@example.com", "mal@example.com"
	_, err = accounts.Create(ctx, account.NewUser{FirstName: "Ada", LastName: "Lovelace", Email: known, Password: "correct horse battery staple"})
	if err != nil {
		return err
	}
	if err := w.serve(ctx); err != nil {
		return err
	}
	var times [3][]time.Duration
	// Each hash takes 19 MiB, so that the garbage collector comes about every second
	// try: in a fixed order, always to the same one.
	order := rand.New(rand.NewPCG(1, 2))
	for round := range loginTries + loginWarmups {
		for _, i := range order.Perm(len(times)) {
			took, err := w.guess(ctx, [...]string{known, unknown, stranger}[i])
			if err != nil {
				return err
			}
			if round >= loginWarmups {
				times[i] = append(times[i], took)
			}
		}
	}
	wrong, none, other := median(times[0]), median(times[1]), median(times[2])
	ratio := float64(wrong) / float64(none)
	fmt.Printf("   medians of %d tries: wrong password %v, unknown address %v, ratio %.3f   within %.0f %%: %s\n",
		loginTries, round(wrong), round(none), ratio, loginDiffer*100, verdict(math.Abs(ratio-1) < loginDiffer))
	fmt.Printf("   another unknown address %v, ratio %.3f: the noise of this run\n", round(other), float64(other)/float64(none))
	return nil
}

// guess tries one wrong password, with the throttles emptied before.
func (w *world) guess(ctx context.Context, email string) (time.Duration, error) {
	if _, err := w.owner.Exec(ctx, `delete from throttles`); err != nil {
		return 0, err
	}
	body, err := json.Marshal(map[string]string{"email": email, "password": "a wrong battery staple"})
	if err != nil {
		return 0, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url+"/api/auth/login", strings.NewReader(string(body)))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	started := time.Now()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	answer, err := io.ReadAll(resp.Body)
	took := time.Since(started)
	if err != nil {
		return 0, err
	}
	if err := resp.Body.Close(); err != nil {
		return 0, err
	}
	if resp.StatusCode != http.StatusUnauthorized {
		return 0, fmt.Errorf("a guess got %d %s", resp.StatusCode, answer)
	}
	return took, nil
}
