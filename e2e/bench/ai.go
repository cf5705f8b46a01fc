package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/waypost/waypost/internal/account"
	"github.com/waypost/waypost/internal/identity"
)

const (
	// aiAdded is the most that the gateway may add to a call, at the median.
	aiAdded = 3 * time.Millisecond
	// aiRelayed is the least share of a plain reverse proxy's tokens that it relays.
	aiRelayed = 0.7
	// aiStreams are on at the same time, and aiRelays where tokens are counted.
	aiStreams, aiRelays = 500, 8
	aiBurst             = 20000 // tokens of a stream without pauses
	aiPaced             = 80    // tokens of a stream with a pause before each
	aiPace              = 100 * time.Millisecond
	// aiRamp is the time in which the streams begin: less than one of them takes.
	aiRamp = 4 * time.Second
	// aiGrowth is how much memory may grow while the streams are on.
	aiGrowth = 1.15
)

// envUpstream makes this program an upstream of language models; with a URL in it, a
// reverse proxy in front of that.
const envUpstream = "BENCH_AI_UPSTREAM"

// aiFigure holds the gateway against calling its upstream straight, and against a plain
// reverse proxy. The upstream answers at once; both it and the proxy are processes of their own.
func aiFigure(ctx context.Context, w *world) error {
	upstream, err := w.runSelf(ctx, envUpstream+"=upstream")
	if err != nil {
		return err
	}
	proxy, err := w.runSelf(ctx, envUpstream+"=http://"+upstream)
	if err != nil {
		return err
	}
	token, err := w.caller(ctx, upstream)
	if err != nil {
		return err
	}
	gateway := aiCaller{url: w.url + "/api/ai/v1/chat/completions", token: token}
	if err := compareCalls(ctx, w, gateway, aiCaller{url: "http://" + upstream + "/v1/chat/completions"}); err != nil {
		return err
	}
	if err := compareStreams(ctx, w, gateway, aiCaller{url: "http://" + proxy + "/v1/chat/completions"}); err != nil {
		return err
	}
	return manyStreams(ctx, w, gateway)
}

// caller runs the service in front of the upstream, and returns a token of somebody who
// may call it without end.
func (w *world) caller(ctx context.Context, upstream string) (string, error) {
	file := filepath.Join(w.dir, "waypost.yaml")
	text := fmt.Sprintf(`ai:
  upstreams: [{name: bench, kind: openai, base_url: "http://%s/v1", allow_private: true}]
  limits: {rpm: 1000000, tpm: 1000000000000, budget: 1000000, timeout: 60s}
  models:
    - {name: call, price: {input: 0.15, output: 0.60}, targets: [{upstream: bench, model: call}]}
    - {name: burst, price: {input: 0.15, output: 0.60}, targets: [{upstream: bench, model: burst}]}
    - {name: paced, price: {input: 0.15, output: 0.60}, targets: [{upstream: bench, model: paced}]}
`, upstream)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return "", err
	}
	accounts, err := account.New(account.Options{DB: w.db})
	if err != nil {
		return "", err
	}
	const email, password = "ada@example.com", "correct horse battery staple"
	if _, err := accounts.Create(ctx, account.NewUser{FirstName: "Ada", LastName: "Lovelace", Email: email, Password: password, Role: identity.User}); err != nil {
		return "", err
	}
	err = w.start(ctx, func(address string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, w.binary(), "serve", "--addr", address, "--url", w.url, "--config", file)
		return cmd
	})
	if err != nil {
		return "", err
	}
	var in struct {
		Data struct {
			AccessToken string `json:"access_token"`
		}
	}
	err = w.post(ctx, "/api/auth/login", "application/json", "", fmt.Appendf(nil, `{"email":%q,"password":%q}`, email, password), &in)
	return in.Data.AccessToken, err
}

// aiCaller calls one address.
type aiCaller struct{ url, token string }

var aiClient = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 2 * aiStreams, DisableCompression: true}}

// errRefused says that the service has too much to do.
var errRefused = errors.New("answered 503")

// call asks a model, and returns how many events its answer has.
func (c aiCaller) call(ctx context.Context, model string, stream bool) (int, error) {
	body := fmt.Sprintf(`{"model":%q,"stream":%t,"messages":[{"role":"user","content":"How does the engine weave?"}]}`, model, stream)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+c.token)
	res, err := aiClient.Do(r)
	if err != nil {
		return 0, err
	}
	defer func() { _ = res.Body.Close() }()
	events, last, piece := 0, byte(0), make([]byte, 32<<10)
	for {
		n, err := res.Body.Read(piece)
		if res.StatusCode == http.StatusServiceUnavailable {
			return 0, errRefused
		}
		if res.StatusCode != http.StatusOK {
			return 0, fmt.Errorf("answered %d: %s", res.StatusCode, piece[:n])
		}
		events += bytes.Count(piece[:n], []byte("\n\n"))
		if n > 0 {
			if last == '\n' && piece[0] == '\n' {
				events++
			}
			last = piece[n-1]
		}
		if errors.Is(err, io.EOF) {
			return events, nil
		}
		if err != nil {
			return events, err
		}
	}
}

// compareCalls makes calls one after the other, by turns through the gateway and straight.
func compareCalls(ctx context.Context, w *world, gateway, straight aiCaller) error {
	for _, stream := range []bool{false, true} {
		var ours, theirs []time.Duration
		for i := range w.requests + 20 {
			for _, c := range []struct {
				aiCaller
				to *[]time.Duration
			}{{gateway, &ours}, {straight, &theirs}} {
				began := time.Now()
				if _, err := c.call(ctx, "call", stream); err != nil {
					return err
				}
				if i >= 20 { // the first warm up
					*c.to = append(*c.to, time.Since(began))
				}
			}
		}
		added := median(ours) - median(theirs)
		kind := map[bool]string{false: "a call", true: "a stream of three tokens"}[stream]
		fmt.Printf("   %-26s %v, straight %v: +%v (<= %v) %s\n", kind, median(ours).Round(time.Microsecond), median(theirs).Round(time.Microsecond), added.Round(time.Microsecond), aiAdded, verdict(added <= aiAdded))
	}
	return nil
}

// compareStreams counts tokens of streams without pauses, in rounds by turns.
func compareStreams(ctx context.Context, w *world, gateway, proxy aiCaller) error {
	var ours, theirs, ratios []float64
	for round := range uploadRounds + 1 {
		a, err := gateway.tokens(ctx, w.ai)
		if err != nil {
			return err
		}
		b, err := proxy.tokens(ctx, w.ai)
		if err != nil {
			return err
		}
		if round > 0 {
			ours, theirs, ratios = append(ours, a), append(theirs, b), append(ratios, a/b)
		}
	}
	ratio := median(ratios)
	fmt.Printf("   %-26s %.0f/s, a reverse proxy %.0f/s: %.2f (>= %.1f) %s\n", "tokens relayed", median(ours), median(theirs), ratio, aiRelayed, verdict(ratio >= aiRelayed))
	return nil
}

// tokens is how many a second come over some streams at once.
func (c aiCaller) tokens(ctx context.Context, d time.Duration) (float64, error) {
	var all sync.WaitGroup
	var events atomic.Int64
	var failed atomic.Pointer[error]
	began := time.Now()
	for range aiRelays {
		all.Go(func() {
			for time.Since(began) < d && failed.Load() == nil {
				n, err := c.call(ctx, "burst", true)
				if err != nil {
					failed.Store(&err)
				}
				events.Add(int64(n))
			}
		})
	}
	all.Wait()
	if err := failed.Load(); err != nil {
		return 0, *err
	}
	return float64(events.Load()) / time.Since(began).Seconds(), nil
}

// manyStreams has many streams on at once, and looks at the service's memory.
func manyStreams(ctx context.Context, w *world, gateway aiCaller) error {
	var refused atomic.Int64
	streams := func() error {
		var all sync.WaitGroup
		var failed atomic.Int64
		var last atomic.Value
		for range aiStreams {
			time.Sleep(aiRamp / aiStreams)
			all.Go(func() {
				n, err := gateway.call(ctx, "paced", true)
				for ; errors.Is(err, errRefused); n, err = gateway.call(ctx, "paced", true) {
					refused.Add(1) // early, so that the client tries again
					time.Sleep(200 * time.Millisecond)
				}
				if err != nil || n < aiPaced {
					failed.Add(1)
					last.Store(fmt.Sprintf("%d events, %v", n, err))
				}
			})
		}
		all.Wait()
		if n := failed.Load(); n > 0 {
			return fmt.Errorf("%d of %d streams failed, the last after %v", n, aiStreams, last.Load())
		}
		return nil
	}
	var most []float64
	for range 4 {
		ended := make(chan error, 1)
		go func() { ended <- streams() }()
		peak := 0.0
		for on := true; on; {
			select {
			case err := <-ended:
				if err != nil {
					return err
				}
				on = false
			case <-time.After(100 * time.Millisecond):
				peak = max(peak, float64(residentMemory(w.service))/(1<<20))
			}
		}
		most = append(most, peak)
	}
	grown := most[3] / most[1] // the first round warms up
	fmt.Printf("   %d streams at once: all whole, %d tried again after 503; memory at most %.0f MiB in four rounds; the last against the second: %.2f (<= %.2f) %s\n", aiStreams, refused.Load(), slices.Max(most), grown, aiGrowth, verdict(grown <= aiGrowth))
	return nil
}

// runUpstream is an upstream, or a reverse proxy in front of one. It says its address on
// standard output.
func runUpstream(ctx context.Context, what string) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	var h http.Handler = http.HandlerFunc(answerAI)
	if target, err := url.Parse(what); err == nil && target.Host != "" {
		p := httputil.NewSingleHostReverseProxy(target)
		p.FlushInterval = -1
		p.Transport = &http.Transport{MaxIdleConnsPerHost: 2 * aiStreams, DisableCompression: true}
		h = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			// Read whole: the server closes a body once the answer begins, and the proxy's
			// request breaks off if that is before it has seen the body's end.
			body, _ := io.ReadAll(r.Body)
			r.Body = io.NopCloser(bytes.NewReader(body))
			p.ServeHTTP(w, r)
		})
	}
	return servePlainly(ctx, h)
}

const aiUsage = `"usage":{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12}`

// answerAI answers with as many tokens as the model's name stands for.
func answerAI(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	if !bytes.Contains(body, []byte(`"stream":true`)) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"id":"1","object":"chat.completion","created":1,"model":"call","choices":[{"index":0,"message":{"role":"assistant","content":"It weaves algebraic patterns."},"finish_reason":"stop"}],`+aiUsage+`}`)
		return
	}
	tokens, pace := 3, time.Duration(0)
	switch {
	case bytes.Contains(body, []byte(`"model":"burst"`)):
		tokens = aiBurst
	case bytes.Contains(body, []byte(`"model":"paced"`)):
		tokens, pace = aiPaced, aiPace
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for range tokens {
		time.Sleep(pace)
		_, _ = io.WriteString(w, `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"small-1","system_fingerprint":"fp_1","choices":[{"index":0,"delta":{"content":" pattern"},"logprobs":null,"finish_reason":null}]}`+"\n\n")
		w.(http.Flusher).Flush()
	}
	_, _ = io.WriteString(w, `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"small-1","choices":[],`+aiUsage+"}\n\ndata: [DONE]\n\n")
}
