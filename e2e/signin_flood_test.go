package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waypost/waypost/e2e/outside"
)

// 150 clients sign in with right passwords, again and again. Who else signs in gets
// a session, and those of the flood that are too many are told when to return.
func TestAFloodOfSignInsKeepsNobodyElseOut(t *testing.T) {
	p, url := serve(t, "WAYPOST_TRUSTED_PROXIES=127.0.0.1")
	const accounts = 5
	for _, name := range []string{"ada", "eve0", "eve1", "eve2", "eve3", "eve4"} {
		code, _, errOut := command(t, []string{"DATABASE_URL=" + url}, outside.Password,
			"user", "create", "--email", name+"@example.com", "--first-name", "First", "--last-name", "Last")
		if code != 0 {
			t.Fatal(errOut)
		}
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 200}}
	t.Cleanup(client.CloseIdleConnections)
	login := func(email, address string) outside.Answer {
		body := outside.JSON(map[string]string{"email": email, "password": outside.Password})
		return outside.Exchange(t, client, "POST", p.url+"/api/auth/login", body, "Content-Type", "application/json", "X-Forwarded-For", address)
	}
	for name, flood := range map[string]func(i int) (email, address string){
		"one account from one address":    func(int) (string, string) { return "eve0@example.com", "203.0.113.1" },
		"many accounts from one address":  func(i int) (string, string) { return fmt.Sprintf("eve%d@example.com", i%accounts), "203.0.113.1" },
		"one account from many addresses": func(i int) (string, string) { return "eve0@example.com", fmt.Sprintf("203.0.113.%d", 1+i) },
	} {
		t.Run(name, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			full := make(chan struct{})
			tellFull := sync.OnceFunc(func() { close(full) })
			for i := range 150 {
				email, address := flood(i)
				wg.Go(func() {
					for ctx.Err() == nil {
						switch a := login(email, address); a.Status {
						case http.StatusOK:
						case http.StatusServiceUnavailable:
							if a.Header.Get("Retry-After") == "" || !strings.Contains(string(a.Body), `"busy"`) {
								t.Errorf("one too many: %v %s", a.Header, a.Body)
							}
							tellFull()
						case http.StatusTooManyRequests: // one account's, from one address
							if a.Header.Get("Retry-After") == "" {
								t.Errorf("one too many: %v %s", a.Header, a.Body)
							}
						default:
							t.Errorf("the flood gets %d %s", a.Status, a.Body)
						}
					}
				})
			}
			<-full
			var longest time.Duration
			for n := range 5 {
				began := time.Now()
				if a := login("ada@example.com", "198.51.100.7"); a.Status != http.StatusOK {
					t.Errorf("honest sign-in %d: %d %s", n, a.Status, a.Body)
				}
				longest = max(longest, time.Since(began))
			}
			stop()
			wg.Wait()
			t.Logf("the longest of five honest sign-ins took %s", longest.Round(time.Millisecond))
		})
	}
}
