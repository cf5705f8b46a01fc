package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// rejectedList waits until the log has as many entries as wanted.
func rejectedList(t *testing.T, h hooks, query string, want int) []any {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		status, _, got := send(t, h.admin(t, "GET", "/api/admin/webhooks/rejected?"+query))
		data, _ := got["data"].([]any)
		if status == http.StatusOK && len(data) == want {
			return data
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %d %v, want %d entries", query, status, got, want)
		}
	}
}

func TestRefusedDeliveriesAreListedForAdministrators(t *testing.T) {
	t.Parallel()
	c := newCases(t)
	h := pay("t=1700000000,v1=00")
	h.Set("Authorization", "Bearer hunter2")
	c.try(t, []attack{
		{"unknown", "nobody", "{}", http.Header{}, 404},
		{"wrong", "payment", casesBody, h, 401},
		{"large", "small", strings.Repeat(" ", 65), casesSign("small", ""), 413},
		{"not JSON", "codehost", "x", casesSign("codehost", "x"), 400},
	})
	if got := c.wire(t, "POST /webhooks/payment HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 9\r\n\r\n{"); !strings.Contains(got, "400") {
		t.Errorf("cut: %s", got)
	}
	rejectedList(t, c.hooks, "", 5)
	for query, want := range map[string]int{
		"provider=payment": 2, "reason=unknown_provider": 1, "reason=signature_mismatch": 1, "reason=body_too_large": 1,
		"reason=body_invalid": 1, "reason=body_incomplete": 1, "provider=small&reason=body_invalid": 0,
	} {
		rejectedList(t, c.hooks, query, want)
	}
	row := rejectedList(t, c.hooks, "reason=signature_mismatch", 1)[0].(map[string]any)
	headers, _ := row["headers"].(map[string]any)
	if row["provider"] != "payment" || row["address"] != "127.0.0.1" || row["size"] != float64(len(casesBody)) ||
		!cmp.Equal(headers["Payment-Signature"], []any{"[redacted]"}) || !cmp.Equal(headers["Authorization"], []any{"[redacted]"}) {
		t.Errorf("entry %v", row)
	}
	var pages []string
	cursor := ""
	for range 3 {
		_, _, got := send(t, c.admin(t, "GET", "/api/admin/webhooks/rejected?limit=2&total=true&cursor="+cursor))
		meta, _ := got["meta"].(map[string]any)
		pages = append(pages, fmt.Sprint(len(got["data"].([]any)), meta["has_more"], meta["total"]))
		cursor, _ = meta["next_cursor"].(string)
	}
	if diff := cmp.Diff([]string{"2 true 5", "2 true 5", "1 false 5"}, pages); diff != "" {
		t.Errorf("pages (-want +got):\n%s", diff)
	}
	for _, query := range []string{"reason=none", "reason=storage_unavailable", "provider=%00", "limit=0", "cursor=!", "cursor=e30x"} {
		if status, code, _ := refusal(t, c.admin(t, "GET", "/api/admin/webhooks/rejected?"+query)); status != 422 || code != "validation_failed" {
			t.Errorf("%s: %d %s", query, status, code)
		}
	}
}

func TestProvidersAreListedWithoutTheirSecrets(t *testing.T) {
	t.Parallel()
	c := newCases(t)
	c.setenv("ACME", "")
	c.setenv("MODERN_PREVIOUS", casesStandard)
	c.try(t, []attack{{"a delivery", "payment", casesBody, casesSign("payment", casesBody), 200}})
	status, _, got := send(t, c.admin(t, "GET", "/api/admin/webhooks/providers?total=true"))
	if status != http.StatusOK {
		t.Fatal(status, got)
	}
	for _, secret := range []string{casesPayment, casesCodeHost, casesStandard} {
		if strings.Contains(fmt.Sprint(got), secret) {
			t.Errorf("a secret is shown: %v", got)
		}
	}
	var lines []string
	for _, row := range got["data"].([]any) {
		p := row.(map[string]any)
		events := p["events"].(map[string]any)
		lines = append(lines, fmt.Sprint(p["name"], " ", p["secret_env"], " ", p["secret_set"], " ", p["previous_secret_set"], " ", p["verifier"], " ", p["extractor"], " ",
			p["body_limit"], " ", events["processed"], " ", p["last_delivery_at"] != nil, " ", p["failure_streak"]))
	}
	if diff := cmp.Diff([]string{
		"acme ACME false false hmac json 1.048576e+06 0 false 0",
		"codehost CODEHOST_WEBHOOK_SECRET true false code-host code-host 1.048576e+06 0 false 0",
		"modern MODERN true true standard-webhooks standard-webhooks 1.048576e+06 0 false 0",
		"payment PAYMENT_WEBHOOK_SECRET true false timestamped-hmac payment 1.048576e+06 1 true 0",
		"small CODEHOST_WEBHOOK_SECRET true false code-host json 64 0 false 0",
	}, lines); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	_, _, page := send(t, c.admin(t, "GET", "/api/admin/webhooks/providers?limit=2"))
	meta := page["meta"].(map[string]any)
	_, _, rest := send(t, c.admin(t, "GET", "/api/admin/webhooks/providers?cursor="+fmt.Sprint(meta["next_cursor"])))
	if len(page["data"].([]any)) != 2 || meta["has_more"] != true || len(rest["data"].([]any)) != 3 {
		t.Errorf("pages %v, %v", page, rest)
	}
	for _, path := range []string{"rejected", "providers"} {
		for token, want := range map[string]int{"": 401, "USER": 403, "EDITOR": 403} {
			r := c.request(t, "GET", "/api/admin/webhooks/"+path, nil)
			if token != "" {
				r.Header.Set("Authorization", "Bearer "+token)
			}
			if status, _, _ := refusal(t, r); status != want {
				t.Errorf("%s as %q: %d, want %d", path, token, status, want)
			}
		}
	}
}
