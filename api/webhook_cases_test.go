package api_test

import (
	"bytes"
	"compress/gzip"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waypost/waypost/internal/webhook"
)

// The clock of these tests stands at the time of the published vectors, and the
// secrets are theirs.
const (
	casesNow      = 1700000000
	casesPayment  = "whsec_test_secret"
	casesCodeHost = "0123456789abcdef"
	casesStandard = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	casesBody     = `{"id":"evt_1","type":"paid"}`
)

// cases is a receiver with one provider of each scheme, the variables that hold
// their secrets, and what it logs.
type cases struct {
	hooks
	mu  sync.Mutex
	env map[string]string
	log lockedBuffer
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func newCases(t *testing.T) *cases {
	t.Helper()
	declared, err := webhook.ParseYAML("cases", []byte(`
webhooks:
  providers:
    - {name: acme, secret_env: ACME, verifier: {type: hmac, header: X-Acme-Signature}, extractor: {type: json, type_field: kind, id_field: meta.uid}}
    - {name: modern, secret_env: MODERN, verifier: {type: standard-webhooks}, extractor: {type: standard-webhooks}}
    - {name: small, secret_env: CODEHOST_WEBHOOK_SECRET, verifier: {type: code-host}, extractor: {type: json, id_field: id}, body_limit: 64}
`))
	if err != nil {
		t.Fatal(err)
	}
	registry, err := webhook.NewRegistry(append(declared.Providers, webhook.Payment(), webhook.CodeHost()))
	if err != nil {
		t.Fatal(err)
	}
	c := &cases{env: map[string]string{
		"PAYMENT_WEBHOOK_SECRET": casesPayment, "CODEHOST_WEBHOOK_SECRET": casesCodeHost, "ACME": casesCodeHost, "MODERN": casesStandard,
	}}
	c.hooks = newHooks(t, func(o *webhook.Options) {
		o.Registry = registry
		o.Now = func() time.Time { return time.Unix(casesNow, 999_999_999) }
		o.Logger = slog.New(slog.NewJSONHandler(&c.log, nil))
		o.LookupSecret = func(name string) string {
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.env[name]
		}
	})
	return c
}

func (c *cases) setenv(name, value string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.env[name] = value
}

func mac(secret string, parts ...string) string {
	h := hmac.New(sha256.New, []byte(secret))
	_, _ = h.Write([]byte(strings.Join(parts, "")))
	return hex.EncodeToString(h.Sum(nil))
}

// sign returns the signature headers of a provider for the body.
func casesSign(provider, body string) http.Header {
	t := strconv.Itoa(casesNow)
	switch provider {
	case "payment":
		return http.Header{"Payment-Signature": {"t=" + t + ",v1=" + mac(casesPayment, t, ".", body)}}
	case "acme":
		return http.Header{"X-Acme-Signature": {mac(casesCodeHost, body)}}
	}
	return http.Header{"X-Hub-Signature-256": {"sha256=" + mac(casesCodeHost, body)}}
}

// post delivers over HTTP and returns the status, the code and the members.
func (c *cases) post(t *testing.T, provider, body string, h http.Header) (int, string, map[string]any) {
	t.Helper()
	r := c.request(t, http.MethodPost, "/webhooks/"+provider, []byte(body))
	r.Header = h
	status, _, members := send(t, r)
	e, _ := members["error"].(map[string]any)
	code, _ := e["code"].(string)
	return status, code, members
}

// attack is a case of a catalogue: what is sent, and the verdict.
type attack struct {
	name     string // starts with the case's number
	provider string
	body     string
	header   http.Header
	status   int
}

func (c *cases) try(t *testing.T, list []attack) {
	t.Helper()
	codes := map[int]string{401: "invalid_signature", 400: "invalid_payload", 413: "payload_too_large", 404: "provider_not_found"}
	for _, a := range list {
		status, code, members := c.post(t, a.provider, a.body, a.header)
		if status != a.status || code != codes[a.status] {
			t.Errorf("%s: %d %v, want %d", a.name, status, members, a.status)
		}
	}
}

func hub(value ...string) http.Header  { return http.Header{"X-Hub-Signature-256": value} }
func acme(value ...string) http.Header { return http.Header{"X-Acme-Signature": value} }
func pay(value ...string) http.Header  { return http.Header{"Payment-Signature": value} }

// Section 3a of the catalogue of vectors: the sum over the body.
func TestVectors3aBodyHMAC(t *testing.T) {
	t.Parallel()
	c := newCases(t)
	const yo = "b1f8020f5b4cd42042f807dd939015c4a418bc1ff7f604dd55b0a19b5d953d9b"
	for _, v := range []struct {
		secret, body, hex string
		status            int
	}{
		{"It's a Secret to Everybody", "Hello, World!", "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17", 400},
		{"0123456789abcdef", `{"yo":true}`, yo, 200},
		{"", `{"yo":true}`, yo, 401},
		{"mysecret", `{"foo":"bar"}`, "4864d2759938a15468b5df9ade20bf161da9b4f737ea61794142f3484236bda3", 200},
		{"foo", `{"foo":"bar"}`, "4864d2759938a15468b5df9ade20bf161da9b4f737ea61794142f3484236bda3", 401},
		{"secret", "", "f9e66e179b6747ae54108f82f8ade8b3c25d76fd30afde6c395822c530196169", 400},
	} {
		c.setenv("CODEHOST_WEBHOOK_SECRET", v.secret)
		c.setenv("ACME", v.secret)
		c.try(t, []attack{
			{"code host, secret " + v.secret, "codehost", v.body, hub("sha256=" + v.hex), v.status},
			{"generic, secret " + v.secret, "acme", v.body, acme(v.hex), v.status},
		})
	}
	c.setenv("CODEHOST_WEBHOOK_SECRET", "0123456789abcdef")
	for _, value := range []string{"yo", "sha1=yo", "sha1=012345", "sha1=126f2c800419c60137ce748d7672e77b65cf16d6", ""} {
		c.try(t, []attack{
			{"value " + value, "codehost", `{"yo":true}`, hub(value), 401},
			{"old header " + value, "codehost", `{"yo":true}`, http.Header{"X-Hub-Signature": {value}}, 401},
		})
	}
	c.try(t, []attack{{"absent", "codehost", `{"yo":true}`, http.Header{}, 401}})
}

// Section 3b: the sum over timestamp and body.
func TestVectors3bTimestamped(t *testing.T) {
	t.Parallel()
	c := newCases(t)
	const p = "{\n  \"id\": \"evt_test_webhook\",\n  \"object\": \"event\"\n}"
	const ok = "4f1cd7feda9826e746b7d482c4badebb657398df1099e1046364f6196a230150"
	const rolled = "dc80d0334b78e0dbbc3d5352c151a428b746163b94ad381096bb293b9e650f1e"
	good := "t=1700000000,v1=" + ok
	at := func(t int64) string {
		s := strconv.FormatInt(t, 10)
		return "t=" + s + ",v1=" + mac(casesPayment, s, ".", p)
	}
	for value, want := range map[string]int{
		good: 200, good + ",v1=bad_signature": 200, good + ",v1=potato": 200, "t=1700000000,v1=" + rolled + ",v1=" + ok: 200,
		"t=1700000000,v0=" + ok: 401, "t=1700000000,v1=bad_signature": 401, "t=1700000000,v1=" + hex.EncodeToString([]byte("deadbeef")): 401,
		"bad_header": 401, "I'm not even a real signature header": 401, "": 401, "v1,t=1": 401, "t=": 401,
		"t=12345,v1=2672d138c9a412830f3bfe2ecc5bfb3277cf6f5b49d0119d77dd6cb64da1257e": 401,
		at(casesNow - 299): 200, at(casesNow - 300): 200, at(casesNow - 301): 401, at(casesNow - 400): 401,
		at(casesNow + 299): 200, at(casesNow + 300): 200, at(casesNow + 301): 401,
	} {
		c.try(t, []attack{{"header " + value, "payment", p, pay(value), want}})
	}
	c.try(t, []attack{
		{"absent", "payment", p, http.Header{}, 401},
		{"not JSON", "payment", "} I am not valid JSON; 123][", pay("t=1700000000,v1=f51cb471b499dfae7485cba9aa31df6549b8e098e60f2a2d2a42829d963fe5a4"), 400},
		{"not JSON either", "payment", "this is not valid JSON", pay("t=1700000000,v1=3fa12e00c43599d0fb01131fe7ea14cf2b14a671c09b15a72db83cbbc5fb1ff8"), 400},
	})
	c.setenv("PAYMENT_WEBHOOK_SECRET", "whsec_test_secret_rolled_key")
	c.try(t, []attack{{"the other secret of two signatures", "payment", p, pay("t=1700000000,v1=" + rolled + ",v1=" + ok), 200}})
	c.setenv("PAYMENT_WEBHOOK_SECRET", casesPayment+" ")
	c.try(t, []attack{{"a secret with a trailing space", "payment", p, pay(good), 401}})
}

// Section 3c: Standard Webhooks.
func TestVectors3cStandardWebhooks(t *testing.T) {
	t.Parallel()
	const at, body, id = 1614265330, `{"test": 2432232314}`, "msg_p5jXN8AQM9LWM0D4loKWxJek"
	const good = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
	bad := strings.Replace(good, "OE=", "OA=", 1)
	h := func(id, t, signature string) http.Header {
		h := http.Header{}
		for name, value := range map[string]string{"Webhook-Id": id, "Webhook-Timestamp": t, "Webhook-Signature": signature} {
			if value != "" {
				h.Set(name, value)
			}
		}
		return h
	}
	for _, clock := range []struct {
		offset int64
		status int
	}{{0, 200}, {300, 200}, {301, 401}, {-300, 200}, {-301, 401}} {
		declared, err := webhook.ParseYAML("f", []byte("webhooks: {providers: [{name: modern, secret_env: MODERN, verifier: {type: standard-webhooks}, extractor: {type: standard-webhooks}}]}"))
		if err != nil {
			t.Fatal(err)
		}
		registry, err := webhook.NewRegistry(declared.Providers)
		if err != nil {
			t.Fatal(err)
		}
		secret := casesStandard
		c := &cases{hooks: newHooks(t, func(o *webhook.Options) {
			o.Registry = registry
			o.Now = func() time.Time { return time.Unix(at+clock.offset, 0) }
			o.LookupSecret = func(name string) string {
				if name == "MODERN" {
					return secret
				}
				return ""
			}
		})}
		c.try(t, []attack{{"now " + strconv.FormatInt(clock.offset, 10), "modern", body, h(id, "1614265330", good), clock.status}})
		if clock.offset != 0 {
			continue
		}
		c.try(t, []attack{
			{"list", "modern", body, h(id, "1614265330", "v1,BAD v2,BAD "+good+" v1,BAD"), 200},
			{"ending", "modern", body, h(id, "1614265330", bad), 401},
			{"empty v1", "modern", body, h(id, "1614265330", "v1,"), 401},
			{"no id", "modern", body, h("", "1614265330", good), 401},
			{"no timestamp", "modern", body, h(id, "", good), 401},
			{"no signature", "modern", body, h(id, "1614265330", ""), 401},
			{"timestamp hello", "modern", body, h(id, "hello", good), 401},
		})
		for _, secret = range []string{"", "whsec_"} {
			c.try(t, []attack{{"secret " + secret, "modern", body, h(id, "1614265330", good), 401}})
		}
		secret = strings.TrimPrefix(casesStandard, "whsec_")
		c.try(t, []attack{{"secret without whsec_", "modern", body, h(id, "1614265330", good), 200}})
	}
}

// Section 4, "Signature", cases 1 to 21.
func TestCases01To21Signatures(t *testing.T) {
	t.Parallel()
	c := newCases(t)
	digits, pdigits := mac(casesCodeHost, casesBody), mac(casesPayment, "1700000000.", casesBody)
	upper, good := strings.ToUpper, "t=1700000000,v1="+pdigits
	// signedAt signs the literal text of a timestamp, as a sender with a strange clock would.
	signedAt := func(literal string) http.Header {
		return pay("t=" + literal + ",v1=" + mac(casesPayment, literal, ".", casesBody))
	}
	list := []attack{
		{"01 upper case digits, code host", "codehost", casesBody, hub("sha256=" + upper(digits)), 200},
		{"01 upper case digits, payment", "payment", casesBody, pay("t=1700000000,v1=" + upper(pdigits)), 200},
		{"02 odd length, code host", "codehost", casesBody, hub("sha256=" + digits + "a"), 401},
		{"02 odd length, payment", "payment", casesBody, pay(good + "a"), 401},
		{"03 63 digits", "codehost", casesBody, hub("sha256=" + digits[1:]), 401},
		{"03 63 digits, generic", "acme", casesBody, acme(digits[1:]), 401},
		{"03 65 digits", "codehost", casesBody, hub("sha256=" + digits + "0"), 401},
		{"03 128 digits", "codehost", casesBody, hub("sha256=" + digits + digits), 401},
		{"04 not hexadecimal", "codehost", casesBody, hub("sha256=" + "g" + digits[1:]), 401},
		{"04 not ASCII", "codehost", casesBody, hub("sha256=" + "é" + digits[2:]), 401},
		{"05 interior spaces", "codehost", casesBody, hub("sha256= " + digits), 401},
		{"06 a space behind the comma", "payment", casesBody, pay("t=1700000000, v1=" + pdigits), 401},
		{"07 sent twice, good and bad", "payment", casesBody, pay(good, "t=1,v1=00"), 401},
		{"07 sent twice, bad and good", "payment", casesBody, pay("t=1,v1=00", good), 401},
		{"07 sent twice, code host", "codehost", casesBody, hub("sha256="+digits, "sha256=00"), 401},
		{"07 sent twice, generic", "acme", casesBody, acme("00", digits), 401},
		{"08 a list of two", "codehost", casesBody, hub("sha256=bad,sha256=" + digits), 401},
		{"09 garbage before", "codehost", casesBody, hub("garbage sha256=" + digits), 401},
		{"10 SHA256=", "codehost", casesBody, hub("SHA256=" + digits), 401},
		{"10 sha1=", "codehost", casesBody, hub("sha1=" + digits[:40]), 401},
		{"10 no prefix", "codehost", casesBody, hub(digits), 401},
		{"10 a prefix where there is none", "acme", casesBody, acme("sha256=" + digits), 401},
		{"11 two t, good last", "payment", casesBody, pay("t=1," + good), 401},
		{"11 two t, good first", "payment", casesBody, pay(good + ",t=1"), 401},
		{"11 two equal t", "payment", casesBody, pay("t=1700000000," + good), 401},
		{"12 no t", "payment", casesBody, pay("v1=" + pdigits), 401},
		{"16 10,000 v1", "payment", casesBody, pay("t=1700000000" + strings.Repeat(",v1=00", 10_000)), 401},
		{"16 the 16th v1", "payment", casesBody, pay("t=1700000000" + strings.Repeat(",v1=00", 15) + ",v1=" + pdigits), 200},
		{"16 the 17th v1", "payment", casesBody, pay("t=1700000000" + strings.Repeat(",v1=00", 16) + ",v1=" + pdigits), 401},
		{"17 an empty v1", "payment", casesBody, pay("t=1700000000,v1="), 401},
		{"17 an empty v1 beside a good one", "payment", casesBody, pay(good + ",v1="), 200},
		{"20 a signature for another provider", "acme", casesBody, acme(pdigits), 401},
		{"20 a header for another provider", "codehost", casesBody, pay(good), 401},
		{"21 not registered", "nobody", casesBody, pay(good), 404},
	}
	for _, literal := range []string{"-1", "0", "+1700000000", "01700000000", "1700000000.5", "1e9", "NaN", "9223372036854775808", "1700000000000", " 1700000000", "0x6553f100", ""} {
		list = append(list, attack{"13 t=" + literal, "payment", casesBody, signedAt(literal), 401})
	}
	for _, literal := range []string{"9223372036854775807", "-9223372036854775808", "-9223372036854775807", "99999999999999999999999"} {
		list = append(list, attack{"14 t=" + literal, "payment", casesBody, signedAt(literal), 401})
	}
	for offset, status := range map[int]int{-301: 401, -300: 200, 300: 200, 301: 401} {
		list = append(list, attack{fmt.Sprintf("15 now%+d", offset), "payment", casesBody, signedAt(strconv.Itoa(casesNow + offset)), status})
	}
	c.try(t, list)

	for _, value := range []string{"", " \t", casesPayment + "\n", "changed"} {
		c.setenv("PAYMENT_WEBHOOK_SECRET", value)
		c.try(t, []attack{{"18 secret " + strconv.Quote(value), "payment", casesBody, pay(good), 401}})
	}
	c.setenv("PAYMENT_WEBHOOK_SECRET", casesPayment)
	c.try(t, []attack{{"18 secret back again", "payment", casesBody, pay(good), 200}})

	_, _, members := c.post(t, "payment", casesBody, pay("t=1700000000,v1=00"))
	for _, text := range []string{fmt.Sprint(members), c.log.String()} {
		for _, secret := range []string{pdigits, digits, casesPayment, casesCodeHost} {
			if strings.Contains(text, secret) {
				t.Errorf("19 an answer or the log shows %s: %s", secret, text)
			}
		}
	}
}

// wire sends bytes as they are and returns the answer's status line, "" when the
// connection is closed without one.
func (c *cases) wire(t *testing.T, text string) string {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(c.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, text); err != nil {
		return ""
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	answer, _ := io.ReadAll(conn) // a reset after the answer is as good as its end
	line, _, _ := strings.Cut(string(answer), "\r\n")
	return line
}

// What a client library would not send: cases 4, 5, 29, 38, 67 to 69.
func TestCasesOnTheWire(t *testing.T) {
	t.Parallel()
	c := newCases(t)
	digits := mac(casesCodeHost, casesBody)
	request := func(path, signature string, length int, body string) string {
		return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Hub-Signature-256: %s\r\nContent-Length: %d\r\n\r\n%s", path, signature, length, body)
	}
	n, good := len(casesBody), "sha256="+digits
	for name, v := range map[string]struct{ text, want string }{
		"04 NUL":                          {request("/webhooks/codehost", "sha256=\x00"+digits[1:], n, casesBody), "400"},
		"05 spaces around":                {request("/webhooks/codehost", "  "+good+" \t", n, casesBody), "200"},
		"29 announced longer than it is":  {request("/webhooks/codehost", good, n+10, casesBody), "400"},
		"29 announced shorter than it is": {request("/webhooks/codehost", good, n-1, casesBody), "401"},
		"29 announced as 10 MB":           {request("/webhooks/codehost", good, 10<<20, casesBody), "413"},
		"29 announced as negative":        {request("/webhooks/codehost", good, -1, casesBody), "400"},
		"67 an escaped slash":             {request("/webhooks/code%2Fhost", good, n, casesBody), "404"},
		"67 an escaped path":              {request("/webhooks/..%2f..%2fetc", good, n, casesBody), "404"},
		"67 dots":                         {request("/webhooks/../webhooks/codehost", good, n, casesBody), "404"},
		"67 an escaped NUL":               {request("/webhooks/%00", good, n, casesBody), "404"},
		"68 upper case":                   {request("/webhooks/CODEHOST", good, n, casesBody), "404"},
		"68 an escaped letter":            {request("/webhooks/codeh%6fst", good, n, casesBody), "404"},
		"69 a trailing slash":             {request("/webhooks/codehost/", good, n, casesBody), "404"},
		"69 two slashes":                  {request("//webhooks//codehost", good, n, casesBody), "404"},
		"69 no provider":                  {request("/webhooks/", good, n, casesBody), "404"},
		"70 a name in Unicode":            {request("/webhooks/%C3%BC", good, n, casesBody), "404"},
		"70 51 characters":                {request("/webhooks/"+strings.Repeat("a", 51), good, n, casesBody), "404"},
	} {
		if got := c.wire(t, v.text); !strings.HasPrefix(got, "HTTP/1.1 "+v.want+" ") {
			t.Errorf("%s: %q, want %s", name, got, v.want)
		}
	}
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
	if got := c.rows(t); got != 1 {
		t.Errorf("%d rows: only the delivery with spaces around its signature is good", got)
	}
	c.try(t, []attack{{"38 afterwards", "codehost", casesBody, hub(good), 200}})
}

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

// listWorks reads the administrator's list as text: the payloads in it are more
// than a map of Go's numbers can hold.
func (c *cases) listWorks(t *testing.T, after string) {
	t.Helper()
	resp, err := http.DefaultClient.Do(c.admin(t, "GET", "/api/admin/webhooks?limit=100"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK || !json.Valid(body) {
		t.Fatalf("%s: the list is %d %.300s, %v", after, resp.StatusCode, body, err)
	}
}

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
	if !strings.Contains(c.log.String(), "webhook skipped with another body") {
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

func (c *cases) count(t *testing.T, sql string) int {
	t.Helper()
	var n int
	if err := c.db.Pool().QueryRow(t.Context(), sql).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// Section 4, "Routing", cases 71 and 72; 67 to 70 are in TestCasesOnTheWire.
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
