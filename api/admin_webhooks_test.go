package api_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/webhook"
)

// Case 64.
func TestDeliveriesAreAdministeredByAdministratorsOnly(t *testing.T) {
	t.Parallel()
	h := newHooks(t, nil)
	for _, op := range []struct{ method, path string }{
		{"GET", "/api/admin/webhooks"}, {"POST", "/api/admin/webhooks/01968a3e-7c2f-7d31-9c55-1f6f7f0f2a10/replay"},
		{"GET", "/api/admin/webhooks/01968a3e-7c2f-7d31-9c55-1f6f7f0f2a10"},
		{"GET", "/api/admin/webhooks/01968a3e-7c2f-7d31-9c55-1f6f7f0f2a10?raw=true"}, {"POST", "/api/admin/webhooks/replay"},
		{"GET", "/api/admin/webhooks/replays"}, {"GET", "/api/admin/webhooks/replays/01968a3e-7c2f-7d31-9c55-1f6f7f0f2a10"},
		{"POST", "/api/admin/webhooks/replays/01968a3e-7c2f-7d31-9c55-1f6f7f0f2a10/cancel"},
	} {
		for token, want := range map[string]int{"": 401, "nonsense": 401, "USER": 403, "EDITOR": 403} {
			r := h.request(t, op.method, op.path, nil)
			if token != "" {
				r.Header.Set("Authorization", "Bearer "+token)
			}
			if status, _, _ := refusal(t, r); status != want {
				t.Errorf("%s %s as %q: %d, want %d", op.method, op.path, token, status, want)
			}
		}
	}
}

func TestTheListShowsEveryFieldAndThePayloadAsSent(t *testing.T) {
	t.Parallel()
	h := newHooks(t, nil, webhook.Handle("payment", "refused", func(context.Context, *webhook.Delivery) error { return errors.New("no funds") }))
	const payload = `{"id":"evt_1","type":"refused","n":9007199254740993,"e":1E2,"z":1,"a":"\u0000\ud800<>","a":2}`
	send(t, h.sign(t, "payment", []byte(payload)))
	send(t, h.raw(t, "d1", []byte(`"`+strings.Repeat("x", 16<<10)+`"`)))
	send(t, h.raw(t, "d2", []byte(`{"ref":"main"}`)))
	send(t, h.raw(t, "d3", []byte(`{"ref":"main"}`)))

	status, _, got := send(t, h.admin(t, "GET", "/api/admin/webhooks?total=true"))
	data, _ := got["data"].([]any)
	if status != http.StatusOK || len(data) != 4 {
		t.Fatalf("%d %v", status, got)
	}
	if diff := cmp.Diff(map[string]any{"limit": 20.0, "has_more": false, "next_cursor": "", "total": 4.0}, got["meta"]); diff != "" {
		t.Errorf("meta (-want +got):\n%s", diff)
	}
	row := func(i int) map[string]any {
		m := data[i].(map[string]any)
		for _, name := range []string{"id", "created_at", "payload_sha256"} {
			if s, _ := m[name].(string); s == "" {
				t.Errorf("row %d has no %s", i, name)
			}
		}
		delete(m, "created_at")
		delete(m, "payload_sha256")
		return m
	}
	repeated, first, large, failed := row(0), row(1), row(2), row(3)
	if repeated["repeated_body_of"] != first["id"] || first["repeated_body_of"] != nil {
		t.Errorf("repeated_body_of is %v, not %v", repeated["repeated_body_of"], first["id"])
	}
	if v, there := large["payload"]; !there || v != nil || large["payload_omitted"] != true || large["payload_size"] != float64(16<<10+2) {
		t.Errorf("large payload: %v", large)
	}
	delete(failed, "id")
	delete(failed, "payload")
	if diff := cmp.Diff(map[string]any{
		"provider": "payment", "event_type": "refused", "external_id": "evt_1", "status": "failed", "handler_error": "no funds",
		"retry_count": 0.0, "payload_size": float64(len(payload)),
	}, failed); diff != "" {
		t.Errorf("failed row (-want +got):\n%s", diff)
	}
	if _, there := first["handler_error"]; there || first["processed_at"] == nil {
		t.Errorf("processed row: %v", first)
	}

	resp, err := http.DefaultClient.Do(h.admin(t, "GET", "/api/admin/webhooks?provider=payment"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if text, err := io.ReadAll(resp.Body); err != nil || !strings.Contains(string(text), `"payload":`+payload) {
		t.Errorf("the payload is not as it was sent: %s, %v", text, err)
	}
}

func TestTheListFiltersAndPages(t *testing.T) {
	t.Parallel()
	start := time.Date(2025, 5, 1, 0, 0, 0, 0, time.UTC)
	var tick atomic.Int64
	h := newHooks(t, nil)
	for i := range 5 {
		send(t, h.raw(t, fmt.Sprint(i), []byte(`{}`)))
		if _, err := h.db.Single(identity.System("test")).Exec(t.Context(), `update webhook_events set created_at = $1 where external_id = $2`,
			start.Add(time.Duration(tick.Add(1))*time.Hour), fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	ids := func(query string) (string, string) {
		status, _, got := send(t, h.admin(t, "GET", "/api/admin/webhooks?"+query))
		if status != http.StatusOK {
			t.Fatalf("%s: %d %v", query, status, got)
		}
		var all []string
		for _, row := range got["data"].([]any) {
			all = append(all, row.(map[string]any)["external_id"].(string))
		}
		next, _ := got["meta"].(map[string]any)["next_cursor"].(string)
		return strings.Join(all, ""), next
	}
	for query, want := range map[string]string{
		"":                          "43210",
		"provider=codehost":         "43210",
		"provider=payment":          "",
		"status=processed":          "43210",
		"status=failed":             "",
		"status=skipped":            "",
		"event_type=push":           "43210",
		"external_id=3":             "3",
		"from=2025-05-01T03:00:00Z": "432",
		"to=2025-05-01T03:00:00Z":   "10",
		"from=2025-05-01T04:00:00%2B02:00&limit=2": "43",
		"unknown=parameter":                        "43210",
	} {
		if got, _ := ids(query); got != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
	var all, cursor string
	for range 3 {
		var page string
		page, cursor = ids("limit=2&cursor=" + url.QueryEscape(cursor))
		all += page
	}
	if all != "43210" || cursor != "" {
		t.Errorf("pages give %q, then %q", all, cursor)
	}
	for _, query := range []string{
		"limit=0", "limit=101", "limit=1e9", "status=unknown", "from=yesterday", "to=2025-13-01T00:00:00Z", "cursor=!", "cursor=e30x",
		"provider=%00", "event_type=%ff", "external_id=a%00b", "provider=" + strings.Repeat("a", 51), "%zz",
	} {
		if status, code, _ := refusal(t, h.admin(t, "GET", "/api/admin/webhooks?"+query)); status != 422 || code != "validation_failed" {
			t.Errorf("%s: %d %s", query, status, code)
		}
	}
}

// Case 61.
func TestReplayAnswersTheEventWithItsNewOutcome(t *testing.T) {
	t.Parallel()
	var broken atomic.Bool
	broken.Store(true)
	entered, release := make(chan struct{}), make(chan struct{})
	h := newHooks(t, func(o *webhook.Options) { o.Budget = time.Hour; o.AnswerAfter = time.Hour },
		webhook.Handle("payment", "paid", func(context.Context, *webhook.Delivery) error {
			if broken.Load() {
				return errors.New("broken")
			}
			return nil
		}),
		webhook.Handle("payment", "slow", func(context.Context, *webhook.Delivery) error {
			close(entered)
			<-release
			return nil
		}))
	_, _, got := send(t, h.delivery(t, "payment", "paid", "evt_1", `{}`))
	replay := func(suffix string) *http.Request {
		return h.admin(t, "POST", "/api/admin/webhooks/"+got["id"].(string)+"/replay"+suffix)
	}
	for i, step := range []struct {
		mend   bool
		suffix string
		want   string // the event's status, or the refusal's code
		status int
		count  float64
	}{
		{false, "", "failed", 200, 1},
		{true, "", "processed", 200, 2},
		{true, "", "not_replayable", 409, 0},
		{true, "?force=false", "not_replayable", 409, 0},
		{true, "?force=true", "processed", 200, 3},
	} {
		broken.Store(!step.mend)
		status, _, members := send(t, replay(step.suffix))
		event, _ := members["data"].(map[string]any)
		problem, _ := members["error"].(map[string]any)
		switch {
		case status != step.status:
			t.Errorf("step %d: %d %v", i, status, members)
		case status == 200 && (event["status"] != step.want || event["retry_count"] != step.count || members["message"] == ""):
			t.Errorf("step %d: %v", i, members)
		case status != 200 && problem["code"] != step.want:
			t.Errorf("step %d: %v", i, members)
		}
	}
	slow := h.delivery(t, "payment", "slow", "evt_2", `{}`)
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		if resp, err := http.DefaultClient.Do(slow); err == nil {
			_ = resp.Body.Close()
		}
	}()
	<-entered
	list, err := h.desk.List(t.Context(), webhook.Filter{ExternalID: "evt_2"}, nil, 1)
	if err != nil || len(list) != 1 {
		t.Fatalf("%v, %v", list, err)
	}
	if status, code, _ := refusal(t, h.admin(t, "POST", "/api/admin/webhooks/"+list[0].ID.String()+"/replay?force=true")); status != 409 || code != "in_flight" {
		t.Errorf("while it is handled: %d %s", status, code)
	}
	close(release)
	<-answered
	for _, id := range []string{"01968a3e-7c2f-7d31-9c55-1f6f7f0f2a10", "1", "not-a-uuid", "%00", "{01968a3e-7c2f-7d31-9c55-1f6f7f0f2a10}", "01968a3e7c2f7d319c551f6f7f0f2a10"} {
		if status, code, _ := refusal(t, h.admin(t, "POST", "/api/admin/webhooks/"+id+"/replay")); status != 404 || code != "not_found" {
			t.Errorf("id %s: %d %s", id, status, code)
		}
	}
}
