package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// Section 4, "Fields", cases 39 to 47.
func TestCases39To47Fields(t *testing.T) {
	t.Parallel()
	c := newCases(t)
	long := strings.Repeat
	for _, f := range []struct {
		name, body string
		status     int
		want       string // the answer's status, type and id; "" for a refusal
	}{
		{"39 a type of 100 characters", `{"id":"39a","type":"` + long("é", 100) + `"}`, 200, "processed|" + long("é", 100) + "|39a"},
		{"39 a type of 101 characters", `{"id":"39b","type":"` + long("é", 101) + `"}`, 400, ""},
		{"39 an id of 255 characters", `{"id":"` + long("😀", 255) + `","type":""}`, 200, "processed||" + long("😀", 255)},
		{"39 an id of 256 characters", `{"id":"` + long("😀", 256) + `"}`, 400, ""},
		{"40 too long by spaces", `{"id":"` + long("a", 255) + ` "}`, 400, ""},
		{"40 a trailing space within", `{"id":"` + long("a", 254) + ` "}`, 200, "processed||" + long("a", 254) + " "},
		{"40 the same without it", `{"id":"` + long("a", 254) + `"}`, 200, "processed||" + long("a", 254)},
		{"41 empty", `{"id":"","type":""}`, 200, "processed||"},
		{"41 empty again", `{"id":"","type":""}`, 200, "processed||"},
		{"41 null", `{"id":null,"type":null}`, 200, "processed||"},
		{"41 missing", `{}`, 200, "processed||"},
		{"41 a boolean", `{"id":true}`, 400, ""},
		{"41 an object", `{"id":{}}`, 400, ""},
		{"41 an array", `{"type":["a"]}`, 400, ""},
		{"42 a large number", `{"id":9007199254740993}`, 200, "processed||9007199254740993"},
		{"42 its neighbour", `{"id":9007199254740992}`, 200, "processed||9007199254740992"},
		{"43 1", `{"id":1}`, 200, "processed||1"},
		{"43 1.0", `{"id":1.0}`, 200, "processed||1.0"},
		{"43 1e0", `{"id":1e0}`, 200, "processed||1e0"},
		{"43 the string 1 is 1", `{"id":"1"}`, 200, "skipped"},
		{"44 upper case", `{"id":"EVT"}`, 200, "processed||EVT"},
		{"44 lower case", `{"id":"evt"}`, 200, "processed||evt"},
		{"44 a trailing space", `{"id":"evt "}`, 200, "processed||evt "},
		{"44 composed", `{"id":"\u00e9"}`, 200, "processed||é"},
		{"44 decomposed", `{"id":"e\u0301"}`, 200, "processed||e\u0301"},
		{"45 U+0000", `{"id":"a\u0000b"}`, 400, ""},
		{"45 a lone surrogate", `{"id":"\ud800"}`, 400, ""},
		{"45 a line end", `{"id":"a\n{\"level\":\"ERROR\"}"}`, 200, "processed||a\n{\"level\":\"ERROR\"}"},
		{"45 markup", `{"id":"<script>alert(1)</script>"}`, 200, "processed||<script>alert(1)</script>"},
		{"46 an id", `{"id":"shared"}`, 200, "processed||shared"},
		{"47 the same id, another body", `{"id":"shared","more":1}`, 200, "skipped"},
	} {
		status, code, got := c.post(t, "payment", f.body, casesSign("payment", f.body))
		if status != f.status || status == 400 && code != "invalid_payload" {
			t.Errorf("%s: %d %v", f.name, status, got)
			continue
		}
		answer := fmt.Sprint(got["status"])
		if answer != "skipped" {
			answer += fmt.Sprintf("|%v|%v", got["event_type"], got["external_id"])
		}
		if f.want != "" && answer != f.want {
			t.Errorf("%s: %q, want %q", f.name, answer, f.want)
		}
	}
	const other = `{"meta":{"uid":"shared"}}`
	if _, _, got := c.post(t, "acme", other, casesSign("acme", other)); got["status"] != "processed" || got["external_id"] != "shared" {
		t.Errorf("46 the same id at another provider: %v", got)
	}
	for _, line := range strings.Split(strings.TrimSpace(c.log.String()), "\n") {
		if strings.HasPrefix(line, `{"level":"ERROR"}`) {
			t.Errorf("45 an id made a line of the log: %s", line)
		}
	}
	if !strings.Contains(c.log.String(), "webhook skipped as a duplicate, but its body differs") {
		t.Error("47 the log does not tell of it")
	}
	if n := c.count(t, `select count(*) from webhook_events where external_id = 'shared' and octet_length(raw) > 30`); n != 0 {
		t.Error("47 a duplicate changed the stored body")
	}
	// Each of these has more than one meaning for a header.
	for name, h := range map[string]http.Header{"event": {"X-Codehost-Event": {"a", "b"}}, "delivery": {"X-Codehost-Delivery": {"a", "b"}}} {
		h["X-Hub-Signature-256"] = casesSign("codehost", "{}")["X-Hub-Signature-256"]
		c.try(t, []attack{{"45 header sent twice: " + name, "codehost", "{}", h, 400}})
	}
}
