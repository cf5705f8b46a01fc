package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/google/go-cmp/cmp"

	"github.com/waypost/waypost/api"
	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/internal/httpedge"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/queue"
	"github.com/waypost/waypost/internal/token"
	"github.com/waypost/waypost/internal/webhook"
)

const webhookSecret = "It's a Secret to Everybody"

// tokensByRole signs in whoever presents a role's name as the token.
type tokensByRole struct{}

func (tokensByRole) Authenticate(_ context.Context, presented string) (identity.Principal, error) {
	if role := identity.Role(presented); role.Valid() {
		return identity.Account(1, role, ""), nil
	}
	return identity.Principal{}, token.ErrInvalid
}

// hooks is the API over a real receiver, served over TCP.
type hooks struct {
	url      string
	db       *db.DB
	desk     *webhook.Admin
	registry *webhook.Registry
}

func newHooks(t *testing.T, change func(*webhook.Options), bindings ...webhook.Binding) hooks {
	t.Helper()
	d := dbtest.New(t)
	small := webhook.Payment()
	small.Name, small.BodyLimit = "small", 100
	registry, err := webhook.NewRegistry([]webhook.Registration{webhook.Payment(), webhook.CodeHost(), small}, bindings...)
	if err != nil {
		t.Fatal(err)
	}
	jobs, err := queue.New(slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	o := webhook.Options{DB: d, Registry: registry, Jobs: jobs, Logger: slog.New(slog.DiscardHandler), LookupSecret: func(name string) string {
		if strings.HasSuffix(name, "_PREVIOUS") {
			return ""
		}
		return webhookSecret
	}}
	if change != nil {
		change(&o)
	}
	registry = o.Registry
	service, err := webhook.New(o)
	if err != nil {
		t.Fatal(err)
	}
	r := chi.NewRouter()
	if err := httpedge.Use(r, httpedge.Options{Logger: slog.New(slog.DiscardHandler)}); err != nil {
		t.Fatal(err)
	}
	webhooks, err := api.Webhooks(service.Receiver, service.Admin, registry.Providers())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := api.Mount(r, api.Options{BaseURL: baseURL, Authenticator: tokensByRole{}, Resources: []api.Resource{webhooks}}); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(r)
	t.Cleanup(func() {
		server.Close()
		if err := service.Receiver.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return hooks{url: server.URL, db: d, desk: service.Admin, registry: registry}
}

// delivery is a signed request.
func (h hooks) delivery(t *testing.T, provider, eventType, id, data string) *http.Request {
	t.Helper()
	body, header, err := h.registry.Compose(provider, webhook.TestDelivery{
		EventType: eventType, ExternalID: id, Data: []byte(data), Secret: webhookSecret, Now: time.Now(),
	})
	if err != nil {
		t.Fatal(err)
	}
	r := h.request(t, http.MethodPost, "/webhooks/"+provider, body)
	r.Header = header
	return r
}

// raw is a code host's delivery of any bytes.
func (h hooks) raw(t *testing.T, id string, body []byte) *http.Request {
	t.Helper()
	r := h.sign(t, "codehost", body)
	r.Header.Set("X-Codehost-Event", "push")
	r.Header.Set("X-Codehost-Delivery", id)
	return r
}

// sign signs body as it is.
func (h hooks) sign(t *testing.T, provider string, body []byte) *http.Request {
	t.Helper()
	p, err := h.registry.Provider(provider)
	if err != nil {
		t.Fatal(err)
	}
	r := h.request(t, http.MethodPost, "/webhooks/"+provider, body)
	p.Verifier.(webhook.Signer).Sign([]byte(webhookSecret), body, r.Header, time.Now())
	return r
}

func (h hooks) request(t *testing.T, method, path string, body []byte) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, h.url+path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (h hooks) admin(t *testing.T, method, path string) *http.Request {
	t.Helper()
	r := h.request(t, method, path, nil)
	r.Header.Set("Authorization", "Bearer ADMIN")
	return r
}

// send returns the answer's status, headers and members.
func send(t *testing.T, r *http.Request) (int, http.Header, map[string]any) {
	t.Helper()
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatalf("%s %s: %v", r.Method, r.URL, err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var members map[string]any
	if err := json.Unmarshal(body, &members); err != nil || resp.Header.Get("Content-Type") != "application/json" {
		t.Fatalf("%s %s: %d %s: %s", r.Method, r.URL, resp.StatusCode, resp.Header, body)
	}
	return resp.StatusCode, resp.Header, members
}

// refusal returns the answer's status, code and details.
func refusal(t *testing.T, r *http.Request) (int, string, map[string]any) {
	t.Helper()
	status, _, members := send(t, r)
	e, _ := members["error"].(map[string]any)
	code, _ := e["code"].(string)
	details, _ := e["details"].(map[string]any)
	return status, code, details
}

func (h hooks) rows(t *testing.T) int {
	t.Helper()
	n, err := h.desk.Count(t.Context(), webhook.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	return int(n)
}

func TestEveryAnswerToADurableDelivery(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	h := newHooks(t, func(o *webhook.Options) { o.AnswerAfter = 200 * time.Millisecond; o.Budget = time.Hour },
		webhook.Handle("payment", "ok", func(context.Context, *webhook.Delivery) error { return nil }),
		webhook.Handle("payment", "bad", func(context.Context, *webhook.Delivery) error { return errors.New("internal detail") }),
		webhook.Handle("payment", "panic", func(context.Context, *webhook.Delivery) error { panic("internal detail") }),
		webhook.Handle("payment", "slow", func(context.Context, *webhook.Delivery) error { <-release; return nil }),
	)
	t.Cleanup(func() { close(release) })
	for _, c := range []struct {
		eventType, id string
		want          map[string]any
	}{
		{"ok", "evt_1", map[string]any{"status": "processed", "event_type": "ok", "external_id": "evt_1"}},
		{"none", "evt_2", map[string]any{"status": "processed", "event_type": "none", "external_id": "evt_2"}},
		{"", "", map[string]any{"status": "processed", "event_type": "", "external_id": ""}},
		{"bad", "evt_3", map[string]any{"status": "failed"}},
		{"panic", "evt_4", map[string]any{"status": "failed"}},
		{"slow", "evt_5", map[string]any{"status": "pending", "event_type": "slow", "external_id": "evt_5"}},
		{"ok", "evt_1", map[string]any{"status": "skipped", "reason": "duplicate"}},
		{"ok", "evt_3", map[string]any{"status": "skipped", "reason": "duplicate"}},
	} {
		status, header, got := send(t, h.delivery(t, "payment", c.eventType, c.id, `{}`))
		id, _ := got["id"].(string)
		delete(got, "id")
		if diff := cmp.Diff(c.want, got); diff != "" || status != http.StatusOK || len(id) != 36 || header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s %s: %d, id %q (-want +got):\n%s", c.eventType, c.id, status, id, diff)
		}
	}
}

func TestEveryRefusalOfADelivery(t *testing.T) {
	t.Parallel()
	h := newHooks(t, nil)
	change := func(name, value string) *http.Request {
		r := h.delivery(t, "payment", "paid", "evt_1", `{}`)
		r.Header[name] = strings.Split(value, "|")
		return r
	}
	good := h.delivery(t, "payment", "paid", "evt_1", `{}`).Header.Get("Payment-Signature")
	wrong := strings.TrimSuffix(good, "0") + "1"
	for name, c := range map[string]struct {
		request *http.Request
		status  int
		code    string
		detail  string // a key of details
	}{
		"unknown provider":        {h.request(t, "POST", "/webhooks/nobody", nil), 404, "provider_not_found", ""},
		"other case":              {h.request(t, "POST", "/webhooks/PAYMENT", nil), 404, "provider_not_found", ""},
		"escaped slash":           {h.request(t, "POST", "/webhooks/payment%2Fx", nil), 404, "provider_not_found", ""},
		"NUL":                     {h.request(t, "POST", "/webhooks/%00", nil), 404, "provider_not_found", ""},
		"trailing slash":          {h.request(t, "POST", "/webhooks/payment/", nil), 404, "not_found", ""},
		"GET":                     {h.request(t, "GET", "/webhooks/payment", nil), 405, "method_not_allowed", ""},
		"PUT":                     {h.request(t, "PUT", "/webhooks/payment", nil), 405, "method_not_allowed", ""},
		"no signature":            {h.request(t, "POST", "/webhooks/payment", []byte(`{}`)), 401, "invalid_signature", ""},
		"malformed signature":     {change("Payment-Signature", "yo"), 401, "invalid_signature", ""},
		"wrong signature":         {change("Payment-Signature", wrong), 401, "invalid_signature", ""},
		"sent twice":              {change("Payment-Signature", good+"|"+good), 401, "invalid_signature", ""},
		"too old":                 {change("Payment-Signature", "t=12345,v1=2672d138c9a412830f3bfe2ecc5bfb3277cf6f5b49d0119d77dd6cb64da1257e"), 401, "invalid_signature", ""},
		"empty body, unsigned":    {h.request(t, "POST", "/webhooks/codehost", nil), 401, "invalid_signature", ""},
		"empty body":              {h.raw(t, "1", nil), 400, "invalid_payload", "body"},
		"not JSON":                {h.raw(t, "1", []byte("Hello, World!")), 400, "invalid_payload", "body"},
		"two values":              {h.raw(t, "1", []byte("{}{}")), 400, "invalid_payload", "body"},
		"a byte order mark":       {h.raw(t, "1", []byte("\ufeff{}")), 400, "invalid_payload", "body"},
		"not UTF-8":               {h.raw(t, "1", []byte("{\"a\":\"\xff\"}")), 400, "invalid_payload", "body"},
		"deep":                    {h.raw(t, "1", []byte(strings.Repeat("[", 1001)+strings.Repeat("]", 1001))), 400, "invalid_payload", "body"},
		"deeper":                  {h.raw(t, "1", bytes.Repeat([]byte("["), 1<<20)), 400, "invalid_payload", "body"},
		"gzip stays as it is":     {h.raw(t, "1", []byte("\x1f\x8b\x08\x00")), 400, "invalid_payload", "body"},
		"long type":               {h.delivery(t, "payment", strings.Repeat("é", 101), "1", ""), 400, "invalid_payload", "event_type"},
		"long id":                 {h.delivery(t, "payment", "paid", strings.Repeat("é", 256), ""), 400, "invalid_payload", "external_id"},
		"NUL in the id":           {h.delivery(t, "payment", "paid", "a\x00", ""), 400, "invalid_payload", "external_id"},
		"an object as id":         {h.sign(t, "payment", []byte(`{"id":{},"type":"paid"}`)), 400, "invalid_payload", "external_id"},
		"lone surrogate":          {h.sign(t, "payment", []byte(`{"type":"\ud800","id":"1"}`)), 400, "invalid_payload", "event_type"},
		"header that is no UTF-8": {h.raw(t, "\xff", []byte("{}")), 400, "invalid_payload", "external_id"},
		"over the limit":          {h.raw(t, "1", bytes.Repeat([]byte(" "), 1<<20+1)), 413, "payload_too_large", ""},
		"over its own limit":      {h.delivery(t, "small", "paid", "1", `{"x":"`+strings.Repeat("x", 100)+`"}`), 413, "payload_too_large", ""},
	} {
		status, code, details := refusal(t, c.request)
		if status != c.status || code != c.code {
			t.Errorf("%s: %d %s %v, want %d %s", name, status, code, details, c.status, c.code)
		}
		if _, ok := details[c.detail]; c.detail != "" && !ok {
			t.Errorf("%s: details %v lack %s", name, details, c.detail)
		}
	}
	if n := h.rows(t); n != 0 {
		t.Errorf("%d rows of refused deliveries", n)
	}
}

func TestABodyIsTakenWholeUpToItsLimitHoweverItIsSent(t *testing.T) {
	t.Parallel()
	h := newHooks(t, nil)
	full := []byte(`"` + strings.Repeat("x", 1<<20-2) + `"`)
	for i, chunked := range []bool{false, true} {
		r := h.raw(t, fmt.Sprint(i), full)
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if chunked {
			r.ContentLength, r.Body = -1, io.NopCloser(io.MultiReader(bytes.NewReader(full[:7]), bytes.NewReader(full[7:])))
		}
		if status, _, got := send(t, r); status != http.StatusOK {
			t.Errorf("chunked %v: %d %v", chunked, status, got)
		}
	}
	over := h.raw(t, "2", append(full, ' '))
	over.ContentLength, over.Body = -1, io.NopCloser(bytes.NewReader(append(full, ' ')))
	if status, code, _ := refusal(t, over); status != http.StatusRequestEntityTooLarge || code != "payload_too_large" {
		t.Errorf("one byte over, chunked: %d %s", status, code)
	}
	var size int
	if err := h.db.Pool().QueryRow(t.Context(), `select min(octet_length(raw)) from webhook_events`).Scan(&size); err != nil || size != 1<<20 || h.rows(t) != 2 {
		t.Errorf("%d bytes stored, %v", size, err)
	}
}

// Case 21.
func TestAnUnknownProviderIsAnsweredBeforeTheBodyIsSent(t *testing.T) {
	t.Parallel()
	h := newHooks(t, nil)
	answer := dialog(t, h, "POST /webhooks/nobody HTTP/1.1\r\nHost: x\r\nContent-Length: 10485760\r\n\r\n")
	if !strings.HasPrefix(answer, "HTTP/1.1 404 ") {
		t.Errorf("answer %q", answer)
	}
}

// Case 30.
func TestABodySlowerThanTenSecondsIs408(t *testing.T) {
	t.Parallel()
	h := newHooks(t, nil)
	answer := dialog(t, h, "POST /webhooks/payment HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n{")
	if !strings.HasPrefix(answer, "HTTP/1.1 408 ") || !strings.Contains(answer, "request_timeout") {
		t.Errorf("answer %q", answer)
	}
}

// dialog sends text and no more, and returns what comes back.
func dialog(t *testing.T, h hooks, text string) string {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(h.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 4096)
	n, err := io.ReadAtLeast(c, buf, 300)
	if err != nil && n == 0 {
		t.Fatal(err)
	}
	return string(buf[:n])
}

func TestWithoutADatabaseADeliveryIs503WithRetryAfter(t *testing.T) {
	t.Parallel()
	h := newHooks(t, nil)
	h.db.Close()
	status, header, got := send(t, h.delivery(t, "payment", "paid", "evt_1", `{}`))
	e, _ := got["error"].(map[string]any)
	if status != http.StatusServiceUnavailable || e["code"] != "storage_unavailable" || header.Get("Retry-After") == "" {
		t.Errorf("%d %v, Retry-After %q", status, got, header.Get("Retry-After"))
	}
}

// Case 48.
func TestAHundredDuplicatesOverHTTPAreAHundredTimes200(t *testing.T) {
	t.Parallel()
	h := newHooks(t, nil, webhook.Handle("payment", "", func(context.Context, *webhook.Delivery) error { return nil }))
	signed := h.delivery(t, "payment", "paid", "evt_1", `{}`)
	body, err := io.ReadAll(signed.Body)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	got := map[string]int{}
	var senders sync.WaitGroup
	for range 100 {
		r := h.request(t, http.MethodPost, "/webhooks/payment", body)
		r.Header = signed.Header.Clone()
		senders.Go(func() {
			resp, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = resp.Body.Close() }()
			var answer struct{ Status string }
			if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			got[fmt.Sprint(resp.StatusCode, " ", answer.Status)]++
		})
	}
	senders.Wait()
	if diff := cmp.Diff(map[string]int{"200 processed": 1, "200 skipped": 99}, got); diff != "" || h.rows(t) != 1 {
		t.Errorf("%d rows; answers (-want +got):\n%s", h.rows(t), diff)
	}
}

// Case 57.
func TestAHangUpDuringTheHandlerLosesNothing(t *testing.T) {
	t.Parallel()
	entered, release := make(chan struct{}), make(chan struct{})
	h := newHooks(t, nil, webhook.Handle("payment", "", func(ctx context.Context, _ *webhook.Delivery) error {
		close(entered)
		<-release
		return ctx.Err()
	}))
	ctx, hangUp := context.WithCancel(t.Context())
	r := h.delivery(t, "payment", "paid", "evt_1", `{}`).WithContext(ctx)
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		if resp, err := http.DefaultClient.Do(r); err == nil {
			_ = resp.Body.Close()
		}
	}()
	<-entered
	hangUp()
	<-gone
	close(release)
	deadline := time.Now().Add(30 * time.Second)
	for {
		n, err := h.desk.Count(t.Context(), webhook.Filter{Status: webhook.Processed})
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("%d processed, %v", n, err)
		}
		if n == 1 {
			return
		}
	}
}
