package api_test

import (
	"net/http"
	"strings"
	"testing"
)

// Section 4, "Routing", cases 71 and 72.
func TestCases71And72Routing(t *testing.T) {
	t.Parallel()
	c := newCases(t)
	for _, method := range []string{"GET", "PUT", "PATCH", "DELETE", "OPTIONS"} {
		status, code, _ := refusal(t, c.request(t, method, "/webhooks/payment", nil))
		if status != 405 || code != "method_not_allowed" {
			t.Errorf("71 %s: %d %s", method, status, code)
		}
	}
	resp, err := http.DefaultClient.Do(c.request(t, "HEAD", "/webhooks/payment", nil))
	if err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil || resp.StatusCode != 405 || resp.Header.Get("Allow") != "POST" {
		t.Errorf("71 HEAD: %d %v", resp.StatusCode, resp.Header)
	}
	c.try(t, []attack{{"72 something to find", "payment", casesBody, casesSign("payment", casesBody), 200}})
	for query, want := range map[string]int{
		"status=unknown": 422, "status=processed'--": 422, "limit=1e9": 422, "limit=-1": 422, "limit=101": 422, "page=-1": 200, "cursor=%27": 422,
		"provider=payment'%20or%20'1'='1": 200, "external_id=%25": 200, "event_type=$1": 200, "external_id=%00": 422,
	} {
		status, _, got := send(t, c.admin(t, "GET", "/api/admin/webhooks?"+query))
		data, _ := got["data"].([]any)
		if status != want || status == 200 && query != "page=-1" && len(data) != 0 {
			t.Errorf("72 %s: %d %v", query, status, got)
		}
	}
}

// Cases 67 to 70: paths.
func TestCases67To70RoutingOnTheWire(t *testing.T) {
	t.Parallel()
	c := newCases(t)
	n, good := len(casesBody), goodCodeHost()
	c.tryOnTheWire(t, map[string]wireCase{
		"67 an escaped slash":  {request("/webhooks/code%2Fhost", good, n, casesBody), "404"},
		"67 an escaped path":   {request("/webhooks/..%2f..%2fetc", good, n, casesBody), "404"},
		"67 dots":              {request("/webhooks/../webhooks/codehost", good, n, casesBody), "404"},
		"67 an escaped NUL":    {request("/webhooks/%00", good, n, casesBody), "404"},
		"68 upper case":        {request("/webhooks/CODEHOST", good, n, casesBody), "404"},
		"68 an escaped letter": {request("/webhooks/codeh%6fst", good, n, casesBody), "404"},
		"69 a trailing slash":  {request("/webhooks/codehost/", good, n, casesBody), "404"},
		"69 two slashes":       {request("//webhooks//codehost", good, n, casesBody), "404"},
		"69 no provider":       {request("/webhooks/", good, n, casesBody), "404"},
		"70 a name in Unicode": {request("/webhooks/%C3%BC", good, n, casesBody), "404"},
		"70 51 characters":     {request("/webhooks/"+strings.Repeat("a", 51), good, n, casesBody), "404"},
	})
}
