package webhook_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/webhook"
)

func TestADeliveryWithoutAHandlerIsStoredByteExactAndProcessed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	r := f.receiver(t, setup{})
	const data = "{ \"b\":1E2,\t\"a\":-0, \"a\":9007199254740993,\n\"id\":\"evt_1\" , \"type\":\"paid\" }"
	in := signed(t, "payment", "paid", "evt_1", data)
	in.Header.Set("Authorization", "Basic c2VjcmV0")
	in.Header.Set("User-Agent", "payer/1.0")
	got := mustReceive(t, r, in)
	if diff := cmp.Diff(webhook.Receipt{Status: webhook.Processed, ID: got.ID, EventType: "paid", ExternalID: "evt_1"}, got); diff != "" {
		t.Errorf("receipt (-want +got):\n%s", diff)
	}
	if got.ID.Version() != 7 {
		t.Errorf("id %s is no UUIDv7", got.ID)
	}
	var raw, sum, headers []byte
	if err := f.admin.QueryRow(t.Context(), `select raw, raw_sha256, headers from webhook_events where id = $1`, got.ID).Scan(&raw, &sum, &headers); err != nil {
		t.Fatal(err)
	}
	if string(raw) != data {
		t.Errorf("stored %q", raw)
	}
	if want := sha256.Sum256([]byte(data)); string(sum) != string(want[:]) {
		t.Errorf("stored sum %x, want %x", sum, want)
	}
	var stored http.Header
	if err := json.Unmarshal(headers, &stored); err != nil {
		t.Fatal(err)
	}
	want := http.Header{
		"Authorization": {"[redacted]"}, "Payment-Signature": {"[redacted]"},
		"User-Agent": {"payer/1.0"}, "Content-Type": {"application/json"},
	}
	if diff := cmp.Diff(want, stored); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
	if in.Header.Get("Authorization") == "[redacted]" {
		t.Error("the request's own headers were changed")
	}
	rec := mustFind(t, r, got.ID)
	if rec.Status != webhook.Processed || rec.ProcessedAt == nil || rec.HandlerError != "" || rec.RetryCount != 0 {
		t.Errorf("record %+v", rec)
	}
}

func TestADuplicateIsSkippedAndNamesTheStoredEvent(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var calls atomic.Int64
	r := f.receiver(t, setup{bindings: []webhook.Binding{webhook.Handle("payment", "", counting(&calls))}})
	first := mustReceive(t, r, signed(t, "payment", "paid", "evt_1", `{"n":1}`))
	again := mustReceive(t, r, signed(t, "payment", "paid", "evt_1", `{"n":2}`))
	if again.Status != webhook.Skipped || again.ID != first.ID {
		t.Errorf("again = %+v, first %+v", again, first)
	}
	if n := f.count(t, `select count(*) from webhook_events`); n != 1 || calls.Load() != 1 {
		t.Errorf("%d rows, %d calls", n, calls.Load())
	}
	other := mustReceive(t, r, signed(t, "codehost", "paid", "evt_1", `{"n":1}`))
	if other.Status != webhook.Processed {
		t.Errorf("the same id at another provider is %s", other.Status)
	}
	for range 2 {
		if got := mustReceive(t, r, signed(t, "payment", "paid", "", `{}`)); got.Status != webhook.Processed {
			t.Errorf("without an id: %+v", got)
		}
	}
	for _, id := range []string{"EVT_1", "evt_1 ", " evt_1", "evt_1\n", "é", "e\u0301"} {
		if got := mustReceive(t, r, signed(t, "payment", "paid", id, `{}`)); got.Status != webhook.Processed {
			t.Errorf("id %q is taken for another: %+v", id, got)
		}
	}
}

// Case 48.
func TestAHundredConcurrentDuplicatesAreOneRowAndOneDispatch(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var calls atomic.Int64
	handle := func(ctx context.Context, d *webhook.Delivery) error {
		calls.Add(1)
		return inTx(ctx, d)
	}
	r := f.receiver(t, setup{bindings: []webhook.Binding{webhook.Handle("payment", "paid", handle)}})
	in := signed(t, "payment", "paid", "evt_1", `{}`)
	var mu sync.Mutex
	statuses, ids := map[webhook.Status]int{}, map[uuid.UUID]bool{}
	var senders sync.WaitGroup
	for range 100 {
		senders.Go(func() {
			got, err := r.Receive(t.Context(), webhook.Inbound{Provider: in.Provider, Header: in.Header.Clone(), Body: in.Body})
			if err != nil {
				t.Errorf("Receive: %v", err)
			}
			mu.Lock()
			defer mu.Unlock()
			statuses[got.Status]++
			ids[got.ID] = true
		})
	}
	senders.Wait()
	if diff := cmp.Diff(map[webhook.Status]int{webhook.Processed: 1, webhook.Skipped: 99}, statuses); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
	rows, effects := f.count(t, `select count(*) from webhook_events`), f.count(t, `select count(*) from effects`)
	if rows != 1 || effects != 1 || calls.Load() != 1 || len(ids) != 1 {
		t.Errorf("%d rows, %d effects, %d calls, %d ids", rows, effects, calls.Load(), len(ids))
	}
}

// Case 51.
func TestARowThatTheDatabaseRefusesFailsAlone(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	taken := mustReceive(t, f.receiver(t, setup{}), signed(t, "payment", "paid", "first", `{}`)).ID
	var made atomic.Int64
	r := f.receiver(t, setup{change: func(o *webhook.Options) {
		o.NewID = func() (uuid.UUID, error) {
			if made.Add(1)%10 == 0 {
				return taken, nil // breaks the primary key, which ON CONFLICT doesn't cover
			}
			return uuid.NewV7()
		}
	}})
	var stored, refused atomic.Int64
	var senders sync.WaitGroup
	for i := range 50 {
		in := signed(t, "payment", "paid", eventID(i), `{}`)
		senders.Go(func() {
			switch _, err := r.Receive(t.Context(), in); {
			case err == nil:
				stored.Add(1)
			case errors.Is(err, webhook.ErrStorage):
				refused.Add(1)
			default:
				t.Errorf("Receive: %v", err)
			}
		})
	}
	senders.Wait()
	if stored.Load() != 45 || refused.Load() != 5 {
		t.Errorf("%d stored, %d refused", stored.Load(), refused.Load())
	}
	if n := f.count(t, `select count(*) from webhook_events`); n != 46 {
		t.Errorf("%d rows", n)
	}
}

// Case 52.
func TestWithoutItsDatabaseADeliveryIsRefusedAndNotHandled(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var calls atomic.Int64
	r := f.receiver(t, setup{bindings: []webhook.Binding{webhook.Handle("payment", "", counting(&calls))}})
	f.exec(t, `alter table webhook_events rename to away`)
	_, err := r.Receive(t.Context(), signed(t, "payment", "paid", "evt_1", `{}`))
	refusal, _ := errors.AsType[*fault.Error](err)
	if !errors.Is(err, webhook.ErrStorage) || refusal.RetryAfter <= 0 {
		t.Errorf("Receive: %v", err)
	}
	f.exec(t, `alter table away rename to webhook_events`)
	f.exec(t, `select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() and datname = current_database()`)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		got, err := r.Receive(ctx, signed(t, "payment", "paid", "evt_1", `{}`))
		if err == nil && got.Status == webhook.Processed {
			break
		}
		if !errors.Is(err, webhook.ErrStorage) {
			t.Fatalf("Receive: %+v, %v", got, err)
		}
	}
	if calls.Load() != 1 {
		t.Errorf("%d calls", calls.Load())
	}
}

func TestASendersHangUpCancelsNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ctx, hangUp := context.WithCancel(t.Context())
	r := f.receiver(t, setup{bindings: []webhook.Binding{webhook.Handle("payment", "", func(ctx context.Context, d *webhook.Delivery) error {
		hangUp()
		return errors.Join(inTx(ctx, d), ctx.Err())
	})}})
	got, err := r.Receive(ctx, signed(t, "payment", "paid", "evt_1", `{}`))
	if err != nil || got.Status != webhook.Processed {
		t.Errorf("a hang-up during the handler: %+v, %v", got, err)
	}
	got, err = r.Receive(ctx, signed(t, "payment", "paid", "evt_2", `{}`))
	if err != nil || got.Status != webhook.Processed {
		t.Errorf("a hang-up before the store: %+v, %v", got, err)
	}
	if n := f.count(t, `select count(*) from effects`); n != 2 {
		t.Errorf("%d effects", n)
	}
}

func TestSecretsAreReadAtEachDeliveryAndOverlapWhileTheyRotate(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	env := map[string]string{}
	r := f.receiver(t, setup{secrets: env})
	for i, c := range []struct {
		name string
		env  map[string]string
		want error
	}{
		{"unset", nil, webhook.ErrSignature},
		{"empty", map[string]string{"PAYMENT_WEBHOOK_SECRET": ""}, webhook.ErrSignature},
		{"white space", map[string]string{"PAYMENT_WEBHOOK_SECRET": " \n"}, webhook.ErrSignature},
		{"only the previous", map[string]string{"PAYMENT_WEBHOOK_SECRET_PREVIOUS": paymentSecret}, webhook.ErrSignature},
		{"set", map[string]string{"PAYMENT_WEBHOOK_SECRET": paymentSecret}, nil},
		{"of the other provider", map[string]string{"PAYMENT_WEBHOOK_SECRET": codeHostSecret}, webhook.ErrSignature},
		{"trailing space", map[string]string{"PAYMENT_WEBHOOK_SECRET": paymentSecret + " "}, webhook.ErrSignature},
		{"rotated, overlapping", map[string]string{"PAYMENT_WEBHOOK_SECRET": "new", "PAYMENT_WEBHOOK_SECRET_PREVIOUS": paymentSecret}, nil},
		{"rotated", map[string]string{"PAYMENT_WEBHOOK_SECRET": "new"}, webhook.ErrSignature},
		{"previous is empty", map[string]string{"PAYMENT_WEBHOOK_SECRET": "new", "PAYMENT_WEBHOOK_SECRET_PREVIOUS": ""}, webhook.ErrSignature},
	} {
		clear(env)
		maps.Copy(env, c.env)
		if _, err := r.Receive(t.Context(), signed(t, "payment", "paid", eventID(i), `{}`)); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
	if n := f.count(t, `select count(*) from webhook_events`); n != 2 {
		t.Errorf("%d rows", n)
	}
}

func TestAWrongSignatureIsRefusedBeforeTheBodyIsJudged(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	r := f.receiver(t, setup{})
	in := signed(t, "payment", "paid", "evt_1", `{}`)
	in.Body = []byte("not JSON")
	if _, err := r.Receive(t.Context(), in); !errors.Is(err, webhook.ErrSignature) {
		t.Errorf("changed body: %v", err)
	}
	in = signed(t, "payment", "paid", "evt_1", `{}`)
	in.Provider = "codehost"
	if _, err := r.Receive(t.Context(), in); !errors.Is(err, webhook.ErrSignature) {
		t.Errorf("a delivery for another provider: %v", err)
	}
	in.Provider = "nobody"
	if _, err := r.Receive(t.Context(), in); !errors.Is(err, webhook.ErrProvider) {
		t.Errorf("unknown provider: %v", err)
	}
	late := f.receiver(t, setup{change: func(o *webhook.Options) {
		o.Now = func() time.Time { return time.Now().Add(302 * time.Second) }
	}})
	if _, err := late.Receive(t.Context(), signed(t, "payment", "paid", "evt_1", `{}`)); !errors.Is(err, webhook.ErrSignature) {
		t.Errorf("an old signature: %v", err)
	}
	if n := f.count(t, `select count(*) from webhook_events`); n != 0 {
		t.Errorf("%d rows", n)
	}
}

// What jsonb refuses or changes, and what makes a later read of it fail.
func TestPoisonBodiesAreStoredAsSentAndTheListStillWorks(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	r := f.receiver(t, setup{bindings: []webhook.Binding{webhook.Handle("codehost", "", inTx)}})
	bodies := []string{
		`{"a":"\u0000"}`, `{"a":"\\u0000"}`, `{"a":"\ud800"}`, `{"a":"\udc00\ud800"}`,
		`{"n":9007199254740993,"m":1e400,"k":-0,"j":1E2}`, `[1e200000]`,
		"[" + strings.Repeat("1e131071,", 8999) + "1e131071]",
		`{"id":"a","ID":"b","id":"c"}`, strings.Repeat("[", 1000) + strings.Repeat("]", 1000),
		` "text" `, `null`, `1`, `[]`, "{\"a\":\"\u2028<script>&\"}",
	}
	want := map[string]string{}
	for i, body := range bodies {
		got := mustReceive(t, r, signed(t, "codehost", "push", eventID(i), body))
		if got.Status != webhook.Processed {
			t.Errorf("%.40q: %s", body, got.Status)
		}
		want[eventID(i)] = body
		if len(body) >= webhook.MaxInlineBody {
			want[eventID(i)] = ""
		}
	}
	list, err := r.List(t.Context(), webhook.Filter{}, nil, 100)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, rec := range list {
		got[rec.ExternalID] = string(rec.Body)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("bodies (-want +got):\n%s", diff)
	}
	for i, body := range bodies {
		if n := f.count(t, `select count(*) from webhook_events where external_id = $1 and raw = $2`, eventID(i), []byte(body)); n != 1 {
			t.Errorf("%.40q is not stored as it was sent", body)
		}
	}
}
