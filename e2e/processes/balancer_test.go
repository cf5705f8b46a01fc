package e2e_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/e2e/outside"
)

// balancer sends requests to the instances that say they are ready, as a proxy does that
// asks for readiness again and again and knows nothing else.
type balancer struct {
	mu        sync.RWMutex // requests hold it for reading
	instances []*process
	ready     []string
	ended     chan struct{}
}

func newBalancer(t *testing.T, instances ...*process) *balancer {
	t.Helper()
	b := &balancer{instances: instances, ended: make(chan struct{})}
	b.probe()
	var prober sync.WaitGroup
	prober.Go(func() {
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				b.probe()
			case <-b.ended:
				return
			}
		}
	})
	t.Cleanup(func() {
		close(b.ended)
		prober.Wait()
	})
	return b
}

func (b *balancer) probe() {
	b.mu.RLock()
	list := slices.Clone(b.instances)
	b.mu.RUnlock()
	ready := map[*process]bool{}
	for _, p := range list {
		res, err := http.Get(p.url + "/readyz")
		if err != nil {
			continue
		}
		_ = res.Body.Close()
		ready[p] = res.StatusCode == http.StatusOK
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ready = nil
	for _, p := range b.instances {
		if ready[p] {
			b.ready = append(b.ready, p.url)
		}
	}
}

func (b *balancer) add(p *process) {
	b.mu.Lock()
	b.instances = append(b.instances, p)
	b.mu.Unlock()
	b.probe()
}

func (b *balancer) remove(p *process) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.instances = slices.DeleteFunc(b.instances, func(q *process) bool { return p == q })
	b.ready = slices.DeleteFunc(b.ready, func(url string) bool { return url == p.url })
}

// crash kills an instance when no request of ours is on its way to it: what a crash does to
// those, and to what they stored, is the subject of other tests.
func (b *balancer) crash(t *testing.T, p *process) {
	t.Helper()
	b.remove(p)
	b.mu.Lock() // requests in flight end first
	defer b.mu.Unlock()
	p.kill()
}

// pick returns one of the ready instances. Done must be called when its answer is there.
func (b *balancer) pick(n int) (url string, done func()) {
	b.mu.RLock()
	if len(b.ready) == 0 {
		b.mu.RUnlock()
		return "", nil
	}
	return b.ready[n%len(b.ready)], b.mu.RUnlock
}

// asks are the kinds of requests that load sends: the status that each is answered with, and
// how it is made.
type asks map[string]struct {
	status int
	make   func(n int) (method, path, body string, header []string)
}

func loadOf(token, public, key string) asks {
	agent := []string{"User-Agent", "Mozilla/5.0 (X11; Linux x86_64; rv:125.0) Gecko/20100101 Firefox/125.0"}
	bearer := []string{"Authorization", "Bearer " + token, "Content-Type", "application/json"}
	return asks{
		"delivery": {200, func(n int) (string, string, string, []string) {
			body := fmt.Sprintf(`{"id":"evt_%d","type":"payment.succeeded"}`, n)
			return "POST", "/webhooks/payment", body, []string{"Payment-Signature", outside.PaymentSignature(outside.PaymentSecret, body)}
		}},
		"hit": {202, func(n int) (string, string, string, []string) {
			return "POST", "/api/collect", fmt.Sprintf(`{"site_key":%q,"url":"https://example.com/%d"}`, public, n%7), agent
		}},
		"post": {200, func(n int) (string, string, string, []string) {
			return "POST", "/api/posts", fmt.Sprintf(`{"title":"Post %d","body":"Its words.","tags":[]}`, n), bearer
		}},
		"list": {200, func(int) (string, string, string, []string) {
			return "GET", "/api/posts?limit=5&total=true", "", bearer
		}},
		"question": {200, func(int) (string, string, string, []string) {
			return "GET", "/api/stats/summary", "", []string{"X-Analytics-API-Key", key}
		}},
	}
}

// load sends each kind of request, one after the other, until the stop function is called,
// which returns how many were answered as they must be. Any other answer, and none, fails the
// test; but a machine that is busy with other tests may have one in a hundred refused as
// busy, before anything is stored.
func (b *balancer) load(t *testing.T, urls dbtest.URLs, token string) (stop func() map[string]int) {
	t.Helper()
	_, public, key := newSite(t, urls.App, "example.com", "UTC")
	ended := make(chan struct{})
	var workers sync.WaitGroup
	counts := map[string]*int{}
	for kind, ask := range loadOf(token, public, key) {
		count := new(int)
		counts[kind] = count
		workers.Go(func() {
			client := &http.Client{Transport: &http.Transport{}, Timeout: outside.Patience}
			busy := 0
			for n := 0; ; n++ {
				select {
				case <-ended:
					if busy > 1+*count/100 {
						t.Errorf("%s: %d were refused as busy, of %d", kind, busy, *count)
					}
					return
				case <-time.After(10 * time.Millisecond): // five kinds at once are load enough
				}
				method, path, body, header := ask.make(n)
				status, said, err := b.send(client, n, method, path, body, header)
				if err != nil {
					t.Errorf("%s %d was lost: %v", kind, n, err)
				} else if status == http.StatusServiceUnavailable && strings.Contains(said, `"code":"busy"`) {
					busy++
				} else if status != ask.status {
					t.Errorf("%s %d: %d %s", kind, n, status, said)
				} else {
					*count++
				}
			}
		})
	}
	end := sync.OnceFunc(func() {
		close(ended)
		workers.Wait()
	})
	t.Cleanup(end)
	return func() map[string]int {
		end()
		acknowledged := map[string]int{}
		for kind, n := range counts {
			acknowledged[kind] = *n
		}
		return acknowledged
	}
}

func (b *balancer) send(client *http.Client, n int, method, path, body string, header []string) (int, string, error) {
	url, done := b.pick(n)
	if done == nil {
		return 0, "", fmt.Errorf("no instance is ready")
	}
	defer done()
	req, err := http.NewRequest(method, url+path, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	said, err := io.ReadAll(res.Body)
	return res.StatusCode, string(said), err
}
