package webhook_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/waypost/waypost/internal/queue"
	"github.com/waypost/waypost/internal/seal"
	"github.com/waypost/waypost/internal/webhook"
)

// storedHeaders are an event's headers as they are in the database.
func (f fixture) storedHeaders(t *testing.T, id uuid.UUID) (http.Header, string) {
	t.Helper()
	var text string
	if err := f.admin.QueryRow(t.Context(), `select headers::text from webhook_events where id = $1`, id).Scan(&text); err != nil {
		t.Fatal(err)
	}
	var h http.Header
	if err := json.Unmarshal([]byte(text), &h); err != nil {
		t.Fatal(err)
	}
	return h, text
}

// Of an accepted delivery no value is stored that the log of refused ones would redact.
func TestHeadersOfAcceptedDeliveriesAreStoredWithoutSecrets(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	r := f.receiver(t, setup{})
	in := signed(t, "payment", "paid", "evt_1", `{}`)
	for _, name := range []string{
		"X-Hub-Signature", "X-Gitlab-Token", "X-Api-Key", "Api_KEY", "X-Client-Secret", "Authorization", "Proxy-Authorization", "X-Authenticate", "Cookie",
		"X-Shopify-Hmac-Sha256", "X-Password", "X-Session", "X-Credentials", "Content-Digest",
	} {
		in.Header[name] = []string{"hunter2", "hunter2 again"}
	}
	in.Header.Set("X-Request-Id", "shown")
	sent := in.Header.Clone()
	got := mustReceive(t, r, in)
	h, text := f.storedHeaders(t, got.ID)
	if strings.Contains(text, "hunter2") || strings.Contains(text, sent.Get("Payment-Signature")) {
		t.Errorf("a secret is stored: %s", text)
	}
	if h.Get("X-Request-Id") != "shown" || h.Get("Content-Type") != "application/json" || len(h) != len(sent) {
		t.Errorf("headers are missing: %v", h)
	}
	if !cmp.Equal(in.Header, sent) {
		t.Error("the request's own headers were changed")
	}
}

// The signature header's name need not speak of one.
func TestTheHeaderOfASignatureIsStoredRedactedWhateverItsName(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		name := http.CanonicalHeaderKey(rapid.StringMatching(`x-[a-z]{1,8}`).Draw(t, "name"))
		h := http.Header{name: {"hunter2"}, "Date": {"today"}}
		if got := webhook.Redact(h, []string{strings.ToLower(name)}); got[name][0] != "[redacted]" || got.Get("Date") != "today" {
			t.Fatalf("%v", got)
		}
	})
}

func sealer(t *testing.T, b byte) *seal.Keyring {
	t.Helper()
	k, err := seal.New(webhook.SealPurpose, bytes.Repeat([]byte{b}, seal.MinSecretKey), nil)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// What is passed on is kept, unreadable to whoever reads the database, for events of a
// binding that passes it on and for no others.
func TestHeadersToPassOnAreSealedBesideTheEvent(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	r := f.receiver(t, setup{
		change: func(o *webhook.Options) { o.Sealer = sealer(t, 1) },
		bindings: []webhook.Binding{
			{Provider: "payment", EventType: "passed", Handler: failing, ByJob: true, PassHeaders: true},
			{Provider: "payment", EventType: "kept", Handler: failing, ByJob: true},
		},
	})
	in := signed(t, "payment", "passed", "evt_1", `{}`)
	in.Header["X-Hub-Signature"] = []string{"hunter2", "again"}
	in.Header["Connection"] = []string{"close, X-Hop"}
	in.Header["X-Hop"] = []string{"by hop"}
	passed := mustReceive(t, r, in)
	kept := mustReceive(t, r, signed(t, "payment", "kept", "evt_2", `{}`))
	read := func(id uuid.UUID) []byte {
		var box []byte
		if err := f.admin.QueryRow(t.Context(), `select sealed_headers from webhook_events where id = $1`, id).Scan(&box); err != nil {
			t.Fatal(err)
		}
		return box
	}
	if box := read(kept.ID); box != nil {
		t.Errorf("headers that nobody passes on are kept: %d bytes", len(box))
	}
	box := read(passed.ID)
	if len(box) == 0 || bytes.Contains(box, []byte("hunter2")) || bytes.Contains(box, []byte("Payment-Signature")) {
		t.Fatalf("sealed: %q", box)
	}
	got, err := r.OpenHeaders(passed.ID, box)
	if err != nil {
		t.Fatal(err)
	}
	want := in.Header.Clone()
	want.Del("Connection")
	want.Del("X-Hop")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if _, err := r.OpenHeaders(kept.ID, box); err == nil {
		t.Error("they open beside another event")
	}
	other := f.receiver(t, setup{change: func(o *webhook.Options) { o.Sealer = sealer(t, 2) }})
	if _, err := other.OpenHeaders(passed.ID, box); err == nil {
		t.Error("they open under another key")
	}
}

func TestABindingThatPassesHeadersNeedsASecretKey(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	registry, err := webhook.NewRegistry([]webhook.Registration{webhook.Payment()}, webhook.Binding{Provider: "payment", Handler: failing, PassHeaders: true})
	if err != nil {
		t.Fatal(err)
	}
	jobs, err := queue.New(discard)
	if err != nil {
		t.Fatal(err)
	}
	_, err = newFaces(webhook.Options{DB: f.db, Registry: registry, Logger: discard, Jobs: jobs, LookupSecret: func(string) string { return "" }})
	if err == nil || !strings.Contains(err.Error(), "secret key") {
		t.Errorf("%v", err)
	}
}
