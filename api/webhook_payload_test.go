package api_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/waypost/waypost/internal/webhook"
)

func TestAPayloadIsAnsweredByteForByteAsItWasSent(t *testing.T) {
	t.Parallel()
	h := newHooks(t, nil, webhook.Handle("payment", "refused", refused))
	for _, payload := range []string{
		"{ \"id\" : \"a\",\n\t\"type\": \"refused\", \"n\": 1E+2, \"n\": -0.0,\r\n \"payload\":null, \"x\": \"\\u0000 \\\"payload\\\":null <&>\" }",
		"{\"type\":\"refused\",\"id\":\"\\\"payload\\\":null\"   }",
	} {
		_, _, receipt := send(t, h.sign(t, "payment", []byte(payload)))
		path := "/api/admin/webhooks/" + receipt["id"].(string)
		for _, r := range []*http.Request{h.admin(t, "GET", path), h.admin(t, "POST", path+"/replay"), h.admin(t, "GET", "/api/admin/webhooks?status=failed")} {
			resp, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if err != nil || resp.StatusCode != http.StatusOK || !strings.Contains(string(text), `"payload":`+payload+`,`) {
				t.Errorf("%s %s: %d, not as it was sent:\n%s\n%s, %v", r.Method, r.URL.Path, resp.StatusCode, payload, text, err)
			}
		}
		if status, _, got := send(t, h.admin(t, "GET", path)); status != http.StatusOK || got["data"] == nil {
			t.Errorf("%d, %v", status, got)
		}
	}
}

func TestTheListTakesEveryFilter(t *testing.T) {
	t.Parallel()
	h := newHooks(t, nil, webhook.Handle("payment", "refused", refused))
	for id, kind := range map[string]string{"a": "refused", "b": "other"} {
		send(t, h.delivery(t, "payment", kind, id, `{}`))
	}
	for query, want := range map[string]int{
		"": 2, "?handled=false": 1, "?handled=true": 2, "?error=NO+funds": 1, "?error=no+money": 0, "?repeated=true": 0, "?repeated=false": 2, "?target=none": 0,
		"?handled=false&status=failed": 0, "?error=no&status=failed&provider=payment&event_type=refused": 1,
	} {
		status, _, got := send(t, h.admin(t, "GET", "/api/admin/webhooks"+query))
		list, _ := got["data"].([]any)
		if status != http.StatusOK || len(list) != want {
			t.Errorf("%q: %d, %d events, want %d: %v", query, status, len(list), want, got)
		}
	}
	for _, query := range []string{"?handled=maybe", "?repeated=2", "?error=" + strings.Repeat("e", 201), "?target=" + strings.Repeat("t", 101)} {
		if status, _, got := send(t, h.admin(t, "GET", "/api/admin/webhooks"+query)); status != http.StatusUnprocessableEntity {
			t.Errorf("%.20s: %d %v", query, status, got)
		}
	}
}
