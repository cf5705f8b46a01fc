package api_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/webhook"
)

var errNoFunds = errors.New("no funds")

func refused(context.Context, *webhook.Delivery) error { return errNoFunds }

func TestOneEventIsShownWithHeadersPayloadAndAttempts(t *testing.T) {
	t.Parallel()
	h := newHooks(t, nil, webhook.Handle("payment", "refused", refused))
	payload := `{"id":"evt_1","type":"refused","n":9007199254740993,"a":"\u0000\ud800<>","pad":"` + strings.Repeat("x", 20<<10) + `"}`
	_, _, receipt := send(t, h.sign(t, "payment", []byte(payload)))
	path := "/api/admin/webhooks/" + receipt["id"].(string)
	status, _, got := send(t, h.admin(t, "GET", path))
	data, _ := got["data"].(map[string]any)
	if status != http.StatusOK || data["status"] != "failed" || data["payload_omitted"] != nil {
		t.Fatalf("%d %v", status, got)
	}
	headers, _ := data["headers"].(map[string]any)
	if diff := cmp.Diff([]any{"[redacted]"}, headers["Payment-Signature"]); diff != "" {
		t.Errorf("signature (-want +got):\n%s", diff)
	}
	attempts, _ := data["attempts"].([]any)
	if len(attempts) != 1 {
		t.Fatalf("attempts %v", attempts)
	}
	attempt := attempts[0].(map[string]any)
	if _, err := time.Parse(time.RFC3339, attempt["at"].(string)); err != nil {
		t.Error(err)
	}
	if attempt["outcome"] != "failed" || attempt["error"] != errNoFunds.Error() || attempt["duration_ms"] == nil || attempt["number"] != 1.0 {
		t.Errorf("attempt %v", attempt)
	}

	for path, want := range map[string]string{path: `"payload":` + payload, path + "?raw=true": payload} {
		resp, err := http.DefaultClient.Do(h.admin(t, "GET", path))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		text, err := io.ReadAll(resp.Body)
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: not as it was sent: %.200s, %v", path, text, err)
		}
		if !strings.Contains(path, "raw") {
			continue
		}
		if string(text) != payload || resp.Header.Get("Content-Type") != "application/octet-stream" ||
			!strings.HasPrefix(resp.Header.Get("Content-Disposition"), "attachment") || resp.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("the download: %d bytes, %v", len(text), resp.Header)
		}
	}
}

func TestAnEventThatIsNotThereOrEmptyIsNotShown(t *testing.T) {
	t.Parallel()
	h := newHooks(t, nil)
	for _, path := range []string{"01968a3e-7c2f-7d31-9c55-1f6f7f0f2a10", "nonsense", "01968a3e-7c2f-7d31-9c55-1f6f7f0f2a10?raw=true"} {
		if status, code, _ := refusal(t, h.admin(t, "GET", "/api/admin/webhooks/"+path)); status != http.StatusNotFound || code != "not_found" {
			t.Errorf("%s: %d %s", path, status, code)
		}
	}
	_, _, receipt := send(t, h.raw(t, "d1", []byte(`{}`)))
	path := "/api/admin/webhooks/" + receipt["id"].(string)
	if _, err := h.db.Single(identity.System("test")).Exec(t.Context(), `update webhook_events set raw = null`); err != nil {
		t.Fatal(err)
	}
	_, _, got := send(t, h.admin(t, "GET", path))
	data, _ := got["data"].(map[string]any)
	if v, there := data["payload"]; !there || v != nil || data["payload_emptied"] != true {
		t.Errorf("emptied: %v", got)
	}
	for method, path := range map[string]string{"GET": path + "?raw=true", "POST": path + "/replay?force=true"} {
		if status, code, _ := refusal(t, h.admin(t, method, path)); status != http.StatusGone || code != "payload_emptied" {
			t.Errorf("%s %s: %d %s", method, path, status, code)
		}
	}
}

func TestABulkReplayIsStartedWatchedAndCancelled(t *testing.T) {
	t.Parallel()
	h := newHooks(t, nil, webhook.Handle("payment", "refused", refused))
	send(t, h.delivery(t, "payment", "refused", "evt_1", `{}`))
	start := func(body string) *http.Request {
		r := h.admin(t, "POST", "/api/admin/webhooks/replay")
		r.Body = io.NopCloser(strings.NewReader(body))
		r.ContentLength = int64(len(body))
		r.Header.Set("Content-Type", "application/json")
		return r
	}
	for body, want := range map[string]int{
		`{}`: 422, `{"provider":""}`: 422, `{"Provider":"payment"}`: 422, `{"status":"lost"}`: 422, `{"from":"yesterday"}`: 422,
		`{"provider":"a\u0000"}`: 422, `{"provider":null}`: 422, `[]`: 422, `{`: 400, ``: 400,
	} {
		if status, _, _ := refusal(t, start(body)); status != want {
			t.Errorf("%s: %d, want %d", body, status, want)
		}
	}
	status, header, got := send(t, start(`{"status":"failed","provider":"payment","from":"2020-01-01T00:00:00Z"}`))
	data, _ := got["data"].(map[string]any)
	id, _ := data["id"].(string)
	if status != http.StatusAccepted || header.Get("Location") != "/api/admin/webhooks/replays/"+id {
		t.Fatalf("%d %v %v", status, header, got)
	}
	wantFilter := map[string]any{"status": "failed", "provider": "payment", "from": "2020-01-01T00:00:00Z"}
	show := func(method, path, state string) {
		t.Helper()
		status, _, got := send(t, h.admin(t, method, path))
		data, _ := got["data"].(map[string]any)
		if status != http.StatusOK || data["status"] != state || data["matched"] != 1.0 || data["replayed"] != 0.0 {
			t.Errorf("%s %s: %d %v", method, path, status, got)
		}
		if diff := cmp.Diff(wantFilter, data["filter"]); diff != "" {
			t.Errorf("filter (-want +got):\n%s", diff)
		}
	}
	path := "/api/admin/webhooks/replays/" + id
	show("GET", path, "running")
	show("POST", path+"/cancel", "cancelled")
	show("GET", path, "cancelled")
	if status, code, _ := refusal(t, h.admin(t, "POST", path+"/cancel")); status != http.StatusConflict || code != "replay_ended" {
		t.Errorf("cancelled twice: %d %s", status, code)
	}
	for _, unknown := range []string{"01968a3e-7c2f-7d31-9c55-1f6f7f0f2a10", "nonsense"} {
		if status, _, _ := refusal(t, h.admin(t, "GET", "/api/admin/webhooks/replays/"+unknown)); status != http.StatusNotFound {
			t.Errorf("%s: %d", unknown, status)
		}
	}
}

func TestBulkReplaysAreListedNewestFirst(t *testing.T) {
	t.Parallel()
	h := newHooks(t, nil)
	var ids []string
	for _, provider := range []string{"payment", "codehost", "small"} {
		r := h.admin(t, "POST", "/api/admin/webhooks/replay")
		body := `{"provider":"` + provider + `"}`
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
		r.Header.Set("Content-Type", "application/json")
		_, _, got := send(t, r)
		data, _ := got["data"].(map[string]any)
		id, _ := data["id"].(string)
		ids = append(ids, id)
	}
	send(t, h.admin(t, "POST", "/api/admin/webhooks/replays/"+ids[1]+"/cancel"))
	var seen []string
	for path := "/api/admin/webhooks/replays?limit=2&total=true"; path != ""; {
		status, _, got := send(t, h.admin(t, "GET", path))
		list, _ := got["data"].([]any)
		meta, _ := got["meta"].(map[string]any)
		if status != http.StatusOK || meta["total"] != 3.0 || len(list) == 0 {
			t.Fatalf("%s: %d %v", path, status, got)
		}
		for _, one := range list {
			b, _ := one.(map[string]any)
			filter, _ := b["filter"].(map[string]any)
			seen = append(seen, fmt.Sprint(filter["provider"], " ", b["status"], " ", b["id"] == ids[2-len(seen)]))
		}
		path = ""
		if next, _ := meta["next_cursor"].(string); meta["has_more"] == true {
			path = "/api/admin/webhooks/replays?limit=2&total=true&cursor=" + next
		}
	}
	if diff := cmp.Diff([]string{"small running true", "codehost cancelled true", "payment running true"}, seen); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if status, _, _ := refusal(t, h.admin(t, "GET", "/api/admin/webhooks/replays?cursor=x")); status != http.StatusUnprocessableEntity {
		t.Errorf("a cursor of nobody: %d", status)
	}
}
