package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/waypost/waypost/e2e/outside"
)

// forgot asks for a reset mail, which is limited by the client's address alone.
func forgot(t *testing.T, p *process, forwardedFor string) outside.Answer {
	t.Helper()
	return outside.Do(t, "POST", p.url+"/api/auth/password/forgot", `{"email":"nobody@example.com"}`, "Content-Type", "application/json", "X-Forwarded-For", forwardedFor)
}

func TestClientsOfAProxyThatSendsPortsHaveTheirOwnLimits(t *testing.T) {
	t.Parallel()
	p, _ := serve(t, "WAYPOST_TRUSTED_PROXIES=127.0.0.1")
	for port := range 60 {
		if a := forgot(t, p, fmt.Sprintf("198.51.100.66, 203.0.113.1:%d", 50000+port)); a.Status != http.StatusOK {
			t.Fatalf("number %d: %d %s", port+1, a.Status, a.Body)
		}
	}
	if a := forgot(t, p, "203.0.113.1:40000"); a.Status != http.StatusTooManyRequests {
		t.Errorf("one more of that client: %d %s", a.Status, a.Body)
	}
	for _, other := range []string{"203.0.113.2:50000", "[2001:db8::1]:50000"} {
		if a := forgot(t, p, other); a.Status != http.StatusOK {
			t.Errorf("%s: %d %s", other, a.Status, a.Body)
		}
	}
	if log := p.stderr.String(); strings.Contains(log, "X-Forwarded-For") {
		t.Errorf("a proxy whose header is read is warned of: %s", tail(log, 1000))
	}
}

func TestAProxyThatNobodyTrustsIsWarnedOfOnce(t *testing.T) {
	t.Parallel()
	p, _ := serve(t)
	for client := range 3 {
		forgot(t, p, fmt.Sprintf("203.0.113.%d", 1+client))
	}
	if n := strings.Count(p.stderr.String(), "WAYPOST_TRUSTED_PROXIES"); n != 1 {
		t.Errorf("%d warnings: %s", n, tail(p.stderr.String(), 1000))
	}
}

// limitedSignIn is a service behind a proxy, with an account, and what signs in there.
func limitedSignIn(t *testing.T) (url string, p *process, login func(p *process, password, address string) outside.Answer) {
	t.Helper()
	p, url = serve(t, "WAYPOST_TRUSTED_PROXIES=127.0.0.1")
	code, _, errOut := command(t, []string{"DATABASE_URL=" + url}, outside.Password,
		"user", "create", "--email", "ada@example.com", "--first-name", "Ada", "--last-name", "Lovelace")
	if code != 0 {
		t.Fatal(errOut)
	}
	return url, p, func(p *process, password, address string) outside.Answer {
		body := outside.JSON(map[string]string{"email": "ada@example.com", "password": password})
		return outside.Do(t, "POST", p.url+"/api/auth/login", body, "Content-Type", "application/json", "X-Forwarded-For", address)
	}
}

func TestAnAttackedOwnerSignsInFromTheNetworkOfBefore(t *testing.T) {
	t.Parallel()
	_, p, login := limitedSignIn(t)
	if a := login(p, outside.Password, "2001:db8:1:2:aaaa::1"); a.Status != http.StatusOK {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	for i := range 10 {
		if a := login(p, "a wrong password", fmt.Sprintf("203.0.113.%d", 1+i)); a.Status != http.StatusUnauthorized {
			t.Fatalf("guess %d: %d %s", i+1, a.Status, a.Body)
		}
	}
	for address, want := range map[string]int{
		"2001:db8:1:2:bbbb::2": http.StatusOK,              // tomorrow's temporary address
		"2001:db8:1:3::1":      http.StatusTooManyRequests, // a neighbour's network
		"203.0.113.200":        http.StatusTooManyRequests,
	} {
		if a := login(p, outside.Password, address); a.Status != want {
			t.Errorf("%s: %d %s, want %d", address, a.Status, a.Body, want)
		}
	}
}

func TestFiftySessionsOfAnAccountHoldOverAllInstances(t *testing.T) {
	t.Parallel()
	url, first, login := limitedSignIn(t)
	both := []*process{first, startServe(t, url, "WAYPOST_TRUSTED_PROXIES=127.0.0.1")}
	tokens := make([]string, 51)
	for i := range tokens {
		var in struct {
			Data struct {
				AccessToken string `json:"access_token"`
			}
		}
		login(both[i%2], outside.Password, "203.0.113.1").Into(t, &in)
		tokens[i] = in.Data.AccessToken
	}
	me := func(i int) outside.Answer {
		return outside.Do(t, "GET", both[(i+1)%2].url+"/api/auth/me", "", "Authorization", "Bearer "+tokens[i])
	}
	if a := me(0); a.Status != http.StatusUnauthorized || !strings.Contains(string(a.Body), `"session_revoked"`) {
		t.Errorf("the first session: %d %s", a.Status, a.Body)
	}
	for _, i := range []int{1, 25, 50} {
		if a := me(i); a.Status != http.StatusOK {
			t.Errorf("session %d: %d %s", i+1, a.Status, a.Body)
		}
	}
}
