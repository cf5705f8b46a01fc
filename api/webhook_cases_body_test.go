package api_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// Section 4, "Body", cases 22 to 37. What is accepted is stored byte by byte, and
// the administrator's list works after each.
func TestCases22To37Bodies(t *testing.T) {
	t.Parallel()
	c := newCases(t)
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	if _, err := z.Write(bytes.Repeat([]byte(" "), 20<<20)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	full := `"` + strings.Repeat("x", 1<<20-2) + `"`
	for i, b := range []struct {
		name, body string
		status     int
	}{
		{"22 empty", "", 400},
		{"22 white space", " \r\n\t", 400},
		{"23 not JSON", "Hello", 400},
		{"23 half of it", `{"a":`, 400},
		{"23 trailing garbage", "{}{}", 400},
		{"23 a byte order mark", "\ufeff{}", 400},
		{"23 NaN", `{"a":NaN}`, 400},
		{"24 a number", "1", 200},
		{"24 a string", `"x"`, 200},
		{"24 null", "null", 200},
		{"24 an array", "[]", 200},
		{"25 an escaped U+0000", `{"a":"\u0000"}`, 200},
		{"26 a lone surrogate", `{"a":"\ud800"}`, 200},
		{"27 a byte that is no UTF-8", "{\"a\":\"\xff\"}", 400},
		{"28 a backslash before u0000", `{"a":"\\u0000"}`, 200},
		{"29 at the limit", full, 200},
		{"29 one byte over", full + " ", 413},
		{"29 10 MB", strings.Repeat(" ", 10<<20), 413},
		{"31 compressed", zipped.String(), 400},
		{"32 depth 10,001", strings.Repeat("[", 10_001) + strings.Repeat("]", 10_001), 400},
		{"32 depth 1,001", strings.Repeat("[", 1001) + strings.Repeat("]", 1001), 400},
		{"32 depth 1,000", strings.Repeat("[", 1000) + strings.Repeat("]", 1000), 200},
		{"32 never closed", strings.Repeat("[", 1<<20), 400},
		{"33 duplicate keys", `{"id":"a","ID":"b","id":"c"}`, 200},
		{"34 a huge exponent", "[1e200000]", 200},
		{"35 a poison row", "[" + strings.Repeat("1e131071,", 8999) + "1e131071]", 200},
		{"36 a form", "payload=%7B%7D&x=1", 400},
		{"36 multipart", "--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n{}\r\n--b--\r\n", 400},
		{"37 order, space and spelling", "{ \"b\" : 1E2 ,\n\"a\":-0,\t\"n\":9007199254740993 }", 200},
	} {
		h := casesSign("codehost", b.body)
		id := fmt.Sprintf("d%d", i)
		h.Set("X-Codehost-Delivery", id)
		h.Set("Content-Type", "application/x-www-form-urlencoded")
		h.Set("Content-Encoding", "gzip") // a claim; what came is what counts
		c.try(t, []attack{{b.name, "codehost", b.body, h, b.status}})
		var stored []byte
		err := c.db.Pool().QueryRow(t.Context(), `select raw from webhook_events where external_id = $1`, id).Scan(&stored)
		if b.status == 200 && (err != nil || string(stored) != b.body) {
			t.Errorf("%s: stored %.60q, %v", b.name, stored, err)
		}
		if b.status != 200 && err == nil {
			t.Errorf("%s: refused and stored", b.name)
		}
		c.listWorks(t, b.name)
	}
	r := c.request(t, http.MethodPost, "/webhooks/codehost", nil)
	r.Header, r.ContentLength, r.Body = casesSign("codehost", full+" "), -1, io.NopCloser(strings.NewReader(full+" "))
	if status, code, _ := refusal(t, r); status != 413 || code != "payload_too_large" {
		t.Errorf("29 one byte over, in chunks: %d %s", status, code)
	}
	c.try(t, []attack{
		{"29 at a small limit", "small", `{"id":"` + strings.Repeat("x", 64-9) + `"}`, casesSign("small", `{"id":"`+strings.Repeat("x", 64-9)+`"}`), 200},
		{"29 over a small limit", "small", `{"id":"` + strings.Repeat("x", 64-8) + `"}`, casesSign("small", `{"id":"`+strings.Repeat("x", 64-8)+`"}`), 413},
	})
}

// Cases 29 and 38: lengths that are not true, and a sender that goes away.
func TestCases29And38BodiesOnTheWire(t *testing.T) {
	t.Parallel()
	c := newCases(t)
	n, good := len(casesBody), goodCodeHost()
	c.tryOnTheWire(t, map[string]wireCase{
		"29 announced longer than it is":  {request("/webhooks/codehost", good, n+10, casesBody), "400"},
		"29 announced shorter than it is": {request("/webhooks/codehost", good, n-1, casesBody), "401"},
		"29 announced as 10 MB":           {request("/webhooks/codehost", good, 10<<20, casesBody), "413"},
		"29 announced as negative":        {request("/webhooks/codehost", good, -1, casesBody), "400"},
	})
	// 38: the sender goes away in the middle. Nothing is stored, and all goes on.
	conn, err := net.Dial("tcp", strings.TrimPrefix(c.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, request("/webhooks/codehost", good, n, casesBody[:5])); err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	if got := c.rows(t); got != 0 {
		t.Errorf("%d rows of broken deliveries", got)
	}
	c.try(t, []attack{{"38 afterwards", "codehost", casesBody, hub(good), 200}})
}
