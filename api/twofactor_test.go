package api_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pquerna/otp/totp"

	"github.com/waypost/waypost/internal/identity"
)

// secondFactor is an account with two-factor authentication.
type secondFactor struct {
	outside
	secret   string
	recovery []string
	holder   func(*http.Request) // signed in before it was set up
}

// code is the one of the step at now plus shift.
func (f secondFactor) code(t *testing.T, shift time.Duration) string {
	t.Helper()
	code, err := totp.GenerateCode(f.secret, time.Now().Add(shift))
	if err != nil {
		t.Fatal(err)
	}
	return code
}

// newSecondFactor sets it up over HTTP. The code of the previous step, within the
// skew, leaves those of this step and the next for the test.
func newSecondFactor(t *testing.T) secondFactor {
	t.Helper()
	o := newOutside(t, baseURL, nil)
	f := secondFactor{outside: o, holder: o.add(t, "ada@example.com", identity.User)}
	setup := f.do(t, "POST", "/api/auth/2fa/setup", "", f.holder)
	setup.wants(t, "setup", 200, "")
	f.secret = member(t, setup, "secret")
	f.do(t, "POST", "/api/auth/2fa/enable", `{"code":"abcdef"}`, f.holder).wants(t, "abuse 24: enable with a wrong code", 401, "totp_invalid")
	enabled := f.do(t, "POST", "/api/auth/2fa/enable", jsonOf(t, map[string]string{"code": f.code(t, -30*time.Second)}), f.holder)
	enabled.wants(t, "enable", 200, "")
	var codes struct {
		Codes []string `json:"recovery_codes"`
	}
	if err := json.Unmarshal(enabled.body.Data, &codes); err != nil || len(codes.Codes) != 10 || enabled.header.Get("Cache-Control") != "no-store" {
		t.Fatalf("%s, %v", enabled.text, err)
	}
	f.recovery = codes.Codes
	return f
}

// challenge signs in with the password and returns what the second step needs.
func (f secondFactor) challenge(t *testing.T) string {
	t.Helper()
	first := f.do(t, "POST", "/api/auth/login", login("ada@example.com", password))
	first.wants(t, "first step", 200, "")
	if !strings.Contains(first.text, `"mfa_required":true`) || strings.Contains(first.text, "access_token") || !strings.Contains(first.text, `"methods":["totp","recovery_code"]`) {
		t.Errorf("first step: %s", first.text)
	}
	return member(t, first, "mfa_token")
}

func (f secondFactor) verify(t *testing.T, challenge, code string) answer {
	t.Helper()
	return f.do(t, "POST", "/api/auth/2fa/verify", jsonOf(t, map[string]string{"mfa_token": challenge, "code": code}))
}

func TestASecondFactorSignsInByCodeAndByRecoveryCode(t *testing.T) {
	t.Parallel()
	f := newSecondFactor(t)
	challenge := f.challenge(t)
	second := f.verify(t, challenge, f.recovery[0])
	second.wants(t, "second step", 200, "")
	f.do(t, "GET", "/api/auth/me", "", bearer(member(t, second, "access_token"))).wants(t, "me", 200, "")
	f.verify(t, f.challenge(t), f.code(t, 0)).wants(t, "by code", 200, "")
	f.do(t, "POST", "/api/auth/2fa/verify", `{"mfa_token":"x","code":"123456"}`).wants(t, "no challenge", 401, "mfa_token_invalid")
	after := f.exchange(t, f.linked(t, f.holder))
	after.wants(t, "after a provider", 200, "")
	if !strings.Contains(after.text, `"mfa_required":true`) {
		t.Errorf("after a provider: %s", after.text)
	}
}

func TestCase21ACodeSignsInOnceAlsoAtOnce(t *testing.T) {
	t.Parallel()
	f := newSecondFactor(t)
	challenge, code := f.challenge(t), f.code(t, 0)
	statuses := make([]int, 8)
	var wg sync.WaitGroup
	for i := range statuses {
		wg.Go(func() { statuses[i] = f.verify(t, challenge, code).status })
	}
	wg.Wait()
	count := map[int]int{}
	for _, status := range statuses {
		count[status]++
	}
	if count[200] != 1 || count[401] != 7 {
		t.Errorf("statuses %v, want one 200 and 401 for the others", statuses)
	}
	f.verify(t, f.challenge(t), code).wants(t, "in another sign-in", 401, "totp_invalid")
}

func TestCase22GuessesOfASecondFactorGet429(t *testing.T) {
	t.Parallel()
	f := newSecondFactor(t)
	for range 12 {
		a := f.verify(t, f.challenge(t), "not a code")
		if a.status == http.StatusTooManyRequests {
			a.wants(t, "guesses", 429, "rate_limited")
			if a.header.Get("Retry-After") == "" {
				t.Error("no Retry-After")
			}
			return
		}
	}
	t.Error("guesses are without limit")
}

func TestCase06And23And24WhatASecondFactorRefuses(t *testing.T) {
	t.Parallel()
	f := newSecondFactor(t) // which tries a wrong code first
	challenge := f.challenge(t)
	f.do(t, "GET", "/api/auth/me", "", bearer(challenge)).wants(t, "abuse 6: the challenge as access token", 401, "token_invalid")
	f.verify(t, challenge, f.recovery[1]).wants(t, "a recovery code", 200, "")
	f.verify(t, challenge, f.recovery[1]).wants(t, "abuse 23: the same challenge and code", 401, "totp_invalid")
	f.verify(t, f.challenge(t), f.recovery[1]).wants(t, "abuse 23: the code again", 401, "totp_invalid")
	f.do(t, "POST", "/api/auth/2fa/setup", "", f.holder).wants(t, "abuse 24: overwrite an active secret", 409, "totp_already_enabled")
	f.verify(t, f.challenge(t), f.code(t, 0)).wants(t, "the active secret", 200, "")
}
