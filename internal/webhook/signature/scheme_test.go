package signature_test

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/waypost/waypost/internal/webhook/signature"
)

var (
	slack  = signature.Scheme{Header: "X-Slack-Signature", Prefix: "v0=", Template: "v0:{timestamp}:{body}", TimestampHeader: "X-Slack-Request-Timestamp"}
	inBody = signature.Scheme{Header: "X-Sum", TimestampField: "sentAt", Milliseconds: true, Tolerance: time.Minute}
)

func TestPublishedVectorsOfTheGeneralScheme(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("\x0b", 20)
	for name, v := range map[string]struct {
		scheme       signature.Scheme
		secret, body string
		header       http.Header
		at           int64
	}{
		// docs.slack.dev, "Verifying requests from Slack".
		"Slack's": {
			slack, "8f742231b10e8888abcd99yyyzzz85a5",
			"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner" +
				"&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN" +
				"&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c",
			http.Header{"X-Slack-Signature": {"v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"}, "X-Slack-Request-Timestamp": {"1531420618"}},
			1531420618,
		},
		// google/go-github, github/messages_test.go.
		"go-github's with SHA-1": {
			signature.Scheme{Header: "X-Hub-Signature", Prefix: "sha1=", Digest: signature.SHA1}, "0123456789abcdef", `{"yo":true}`,
			http.Header{"X-Hub-Signature": {"sha1=126f2c800419c60137ce748d7672e77b65cf16d6"}}, 0,
		},
		// RFC 4231, section 4.2.
		"RFC 4231, SHA-256": {
			signature.Scheme{Header: "H"}, long, "Hi There",
			http.Header{"H": {"b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"}}, 0,
		},
		"RFC 4231, SHA-512": {
			signature.Scheme{Header: "H", Digest: signature.SHA512}, long, "Hi There",
			http.Header{"H": {"87aa7cdea5ef619d4ff0b4241a1d6cb02379f4e2ce4ec2787ad0b30545e17cdedaa833b7d6b8a702038b274eaea3f4e4be9d914eeb61f1702e696c203a126854"}}, 0,
		},
		// The same in base64, as Shopify sends it.
		"RFC 4231, base64": {
			signature.Scheme{Header: "H", Encoding: signature.Base64}, long, "Hi There",
			http.Header{"H": {base64.StdEncoding.EncodeToString(unhex(t, "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"))}}, 0,
		},
		// svix/svix-webhooks, the tests of its libraries, with Svix's own names.
		"Svix's": {
			signature.Scheme{
				Header: "Svix-Signature", Encoding: signature.Base64, Separator: " ", Prefix: "v1,", Template: "{id}.{timestamp}.{body}",
				TimestampHeader: "Svix-Timestamp", IDHeader: "Svix-Id", Key: signature.Base64Key,
			},
			standardSecret, standardBody,
			http.Header{"Svix-Id": {standardID}, "Svix-Timestamp": {"1614265330"}, "Svix-Signature": {"v1," + standardSum}}, standardAt,
		},
	} {
		if err := v.scheme.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		at := time.Unix(v.at, 0)
		if err := v.scheme.Verify([]byte(v.secret), []byte(v.body), v.header, at); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := v.scheme.Verify([]byte(v.secret), []byte(v.body+" "), v.header, at); !errors.Is(err, signature.ErrMismatch) {
			t.Errorf("%s: one byte more: %v", name, err)
		}
		signed := http.Header{}
		if id := v.header.Get("Svix-Id"); id != "" {
			signed.Set("Svix-Id", id)
		}
		v.scheme.Sign([]byte(v.secret), []byte(v.body), signed, at)
		if diff := cmp.Diff(v.header, signed); diff != "" {
			t.Errorf("%s: signed (-want +got):\n%s", name, diff)
		}
	}
}

func unhex(t *testing.T, digits string) []byte {
	t.Helper()
	b, err := hex.DecodeString(digits)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestTheTimestampOfABodyIsHeldAgainstTheClockOnceTheSignatureHolds(t *testing.T) {
	t.Parallel()
	const now = 1700000000
	secret := []byte("secret")
	for body, want := range map[string]error{
		`{"sentAt":1700000000000}`:              nil,
		`{"a":1, "sentAt" : 1700000000999 }`:    nil,
		`{"sentAt":1699999940000}`:              nil,
		`{"sentAt":1699999939999}`:              signature.ErrTooOld,
		`{"sentAt":1700000060999}`:              nil,
		`{"sentAt":1700000061000}`:              signature.ErrTooNew,
		`{"sentAt":1,"sentAt":1700000000000}`:   nil, // JSON's last member counts, as for everybody else
		`{"sentat":1700000000000}`:              signature.ErrMissing,
		`{"x":{"sentAt":1700000000000}}`:        signature.ErrMissing,
		`{"sentAt":"1700000000000"}`:            signature.ErrMalformed,
		`{"sentAt":1.7e12}`:                     signature.ErrMalformed,
		`{"sentAt":-1700000000000}`:             signature.ErrMalformed,
		`{"sentAt":null}`:                       signature.ErrMalformed,
		`{"sentAt":99999999999999999999999999}`: signature.ErrMalformed,
		`[1700000000000]`:                       signature.ErrMalformed,
		``:                                      signature.ErrMalformed,
		"{":                                     signature.ErrMalformed,
	} {
		h := http.Header{}
		inBody.Sign(secret, []byte(body), h, time.Unix(now, 0))
		if err := inBody.Verify(secret, []byte(body), h, time.Unix(now, 0)); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", body, err, want)
		}
		// Nobody learns of the body's time without the secret.
		if err := inBody.Verify([]byte("another"), []byte(body), h, time.Unix(now, 0)); !errors.Is(err, signature.ErrMismatch) {
			t.Errorf("%s, another secret: %v", body, err)
		}
	}
	for body, want := range map[string]string{
		`{}`: `{"sentAt":1700000000000}`, ` {"a":1}`: `{"sentAt":1700000000000,"a":1}`, `{"sentAt":5}`: `{"sentAt":5}`, `[]`: "", `null`: "", "": "",
	} {
		got, err := inBody.Stamp([]byte(body), time.Unix(now, 0))
		if string(got) != want || (err == nil) != (want != "") {
			t.Errorf("stamped %s: %s, %v", body, got, err)
		}
	}
}

func TestSecretsThatRotateHaveASignatureEach(t *testing.T) {
	t.Parallel()
	now := time.Unix(standardAt, 0)
	old, fresh := []byte(standardSecret), []byte("whsec_"+base64.StdEncoding.EncodeToString([]byte("another key of many bytes")))
	h := http.Header{"Webhook-Id": {"msg_1"}}
	signature.Standard{}.SignAll(h, []byte(standardBody), now, fresh, old, []byte("no key!"))
	if n := strings.Count(h.Get("Webhook-Signature"), "v1,"); n != 2 {
		t.Fatalf("%d signatures: %s", n, h.Get("Webhook-Signature"))
	}
	for _, secret := range [][]byte{old, fresh} {
		if err := (signature.Standard{}).Verify(secret, []byte(standardBody), h, now); err != nil {
			t.Error(err)
		}
	}
	h = http.Header{}
	signature.Standard{}.SignAll(h, nil, now, []byte("no key!"), nil)
	if len(h) != 0 {
		t.Errorf("signed with no key: %v", h)
	}
}

func TestATokenIsTheSecretItself(t *testing.T) {
	t.Parallel()
	plain, bearer := signature.Token{Header: "X-Gitlab-Token"}, signature.Token{Header: "Authorization", Prefix: "Bearer "}
	for name, c := range map[string]struct {
		token  signature.Token
		secret string
		values []string
		want   error
	}{
		"right":             {plain, "s3cret", []string{"s3cret"}, nil},
		"wrong":             {plain, "s3cret", []string{"s3creT"}, signature.ErrMismatch},
		"its beginning":     {plain, "s3cret", []string{"s3cre"}, signature.ErrMismatch},
		"longer":            {plain, "s3cret", []string{"s3cret "}, signature.ErrMismatch},
		"absent":            {plain, "s3cret", nil, signature.ErrMissing},
		"empty":             {plain, "s3cret", []string{""}, signature.ErrMissing},
		"twice":             {plain, "s3cret", []string{"s3cret", "s3cret"}, signature.ErrRepeated},
		"no secret":         {plain, "", []string{""}, signature.ErrNoSecret},
		"no secret, a word": {plain, "", []string{"x"}, signature.ErrNoSecret},
		"over 8 KiB":        {plain, "s3cret", []string{strings.Repeat("s", 9<<10)}, signature.ErrMalformed},
		"behind a prefix":   {bearer, "s3cret", []string{"Bearer s3cret"}, nil},
		"without it":        {bearer, "s3cret", []string{"s3cret"}, signature.ErrMalformed},
		"another prefix":    {bearer, "s3cret", []string{"bearer s3cret"}, signature.ErrMalformed},
	} {
		h := http.Header{c.token.Header: c.values}
		if err := c.token.Verify([]byte(c.secret), nil, h, time.Time{}); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

func TestAContradictorySchemeIsRefusedInTheFilesWords(t *testing.T) {
	t.Parallel()
	for want, s := range map[string]signature.Scheme{
		"header:":                            {},
		"digest: it is one of":               {Header: "H", Digest: "md5"},
		"encoding: it is one of":             {Header: "H", Encoding: "base32"},
		"key: it is one of":                  {Header: "H", Key: "hex"},
		"separator: it can't be of":          {Header: "H", Separator: "a"},
		"timestamp_prefix: the header needs": {Header: "H", TimestampPrefix: "t="},
		"timestamp_prefix: it is also":       {Header: "H", Separator: ",", TimestampPrefix: "v", Prefix: "v1=", Template: "{timestamp}{body}"},
		"separator: it occurs":               {Header: "H", Separator: "=", Prefix: "v1="},
		"timestamp: give one of":             {Header: "H", TimestampHeader: "T", TimestampField: "t"},
		"tolerance: there is no":             {Header: "H", Tolerance: time.Minute},
		"timestamp_unit: there is no":        {Header: "H", Milliseconds: true},
		"tolerance: it is 1s":                {Header: "H", TimestampHeader: "T", Template: "{timestamp}.{body}", Tolerance: 25 * time.Hour},
		"template: it has {timestamp}":       {Header: "H", Template: "{timestamp}.{body}"},
		"template: without {timestamp}":      {Header: "H", TimestampHeader: "T"},
		"template: put something between":    {Header: "H", IDHeader: "I", Template: "{id}{body}"},
		"template: its placeholders":         {Header: "H", Template: "{url}{body}"},
		"template: {body} stands":            {Header: "H", Template: "{body}{body}"},
		"template: {id} and id_header":       {Header: "H", IDHeader: "I"},
		"timestamp_header: it is no name":    {Header: "H", TimestampHeader: "a b"},
	} {
		if err := s.Validate(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%+v: %v, want one that begins with %q", s, err, want)
		}
	}
}

// schemes draws schemes that are valid.
func schemes() *rapid.Generator[signature.Scheme] {
	return rapid.Custom(func(rt *rapid.T) signature.Scheme {
		s := signature.Scheme{
			Header:   "X-Sum",
			Digest:   rapid.SampledFrom([]signature.Digest{"", signature.SHA1, signature.SHA256, signature.SHA512}).Draw(rt, "digest"),
			Encoding: rapid.SampledFrom([]signature.Encoding{"", signature.Hex, signature.Base64}).Draw(rt, "encoding"),
			Prefix:   rapid.SampledFrom([]string{"", "sha256=", "v1,", "h1="}).Draw(rt, "prefix"),
			Template: rapid.SampledFrom([]string{"", "{body}", "v0:{body}", "{timestamp}.{body}", "{timestamp}{body}", "{id}.{timestamp}.{body}", "{body}|{id}", "{id}:{body}:{timestamp}"}).Draw(rt, "template"),
		}
		if strings.Contains(s.Template, "{id}") {
			s.IDHeader = "X-Id"
		}
		if strings.Contains(s.Template, "{timestamp}") {
			s.Milliseconds = rapid.Bool().Draw(rt, "milliseconds")
			if rapid.Bool().Draw(rt, "in the header") {
				s.Separator, s.TimestampPrefix = ";", "ts="
			} else {
				s.TimestampHeader = "X-Time"
			}
		}
		return s
	})
}

func TestWhatAnySchemeSignsVerifiesAndAnyChangeDoesNot(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		s := schemes().Draw(rt, "scheme")
		if err := s.Validate(); err != nil {
			rt.Fatalf("%+v: %v", s, err)
		}
		secret := rapid.SliceOfN(rapid.Byte(), 1, 80).Draw(rt, "secret")
		body := rapid.SliceOfN(rapid.Byte(), 1, 200).Draw(rt, "body")
		now := time.Unix(rapid.Int64Range(1, 1<<33).Draw(rt, "now"), 0)
		h := http.Header{}
		if s.IDHeader != "" {
			h.Set(s.IDHeader, "id-1")
		}
		s.Sign(secret, body, h, now)
		if err := s.Verify(secret, body, h, now); err != nil {
			rt.Fatalf("own signature: %v", err)
		}
		changed := append([]byte(nil), body...)
		changed[rapid.IntRange(0, len(body)-1).Draw(rt, "at")] ^= 1 << rapid.IntRange(0, 7).Draw(rt, "bit")
		if err := s.Verify(secret, changed, h, now); !errors.Is(err, signature.ErrMismatch) {
			rt.Fatalf("a changed byte: %v", err)
		}
		for _, name := range []string{s.IDHeader, s.TimestampHeader} {
			if name == "" {
				continue
			}
			other := h.Clone()
			other.Set(name, h.Get(name)+"1")
			if name == s.TimestampHeader {
				at, _ := strconv.ParseInt(h.Get(name), 10, 64)
				other.Set(name, fmt.Sprint(at-1))
			}
			if err := s.Verify(secret, body, other, now); !errors.Is(err, signature.ErrMismatch) {
				rt.Fatalf("another %s: %v", name, err)
			}
		}
		for name := range h {
			twice := h.Clone()
			twice.Add(name, h.Get(name))
			if err := s.Verify(secret, body, twice, now); !errors.Is(err, signature.ErrRepeated) {
				rt.Fatalf("%s twice: %v", name, err)
			}
		}
	})
}

// FuzzScheme checks that no headers but the ones that were signed are accepted by a
// scheme with a timestamp and an id, whatever they look like.
func FuzzScheme(f *testing.F) {
	s := signature.Scheme{
		Header: "X-Sum", Separator: ";", TimestampPrefix: "ts=", Prefix: "h1=", Encoding: signature.Base64, Template: "{id}:{timestamp}:{body}", IDHeader: "X-Id",
	}
	now := time.Unix(1700000000, 0)
	signed := http.Header{"X-Id": {"evt_1"}}
	s.Sign([]byte(paymentSecret), []byte(paymentBody), signed, now)
	good := signed.Get("X-Sum")
	_, sum, _ := strings.Cut(good, "h1=")
	f.Add("evt_1", good)
	f.Add("evt_1:1700000000", "ts=1700000000;h1="+sum+";h1=;x")
	f.Add("evt_1", "ts=1700000000;ts=1;h1="+sum)
	f.Add("", ";;=;ts=;h1=")
	f.Fuzz(func(t *testing.T, id, value string) {
		h := http.Header{"X-Id": {id}, "X-Sum": {value}}
		if err := s.Verify([]byte(paymentSecret), []byte(paymentBody), h, now); err != nil {
			return
		}
		if id != "evt_1" || !strings.Contains(value, "ts=1700000000") || !strings.Contains(value, "h1="+sum) {
			t.Fatalf("accepted id %q, %q, which nobody signed", id, value)
		}
	})
}

// FuzzTimestampField checks that no signed body makes the reader of its time fail, or
// pass with another time.
func FuzzTimestampField(f *testing.F) {
	f.Add([]byte(`{"sentAt":1700000000000}`))
	f.Add([]byte(`{"sentAt":{"sentAt":1}}`))
	f.Add([]byte("{\"sentAt\":\n1700000000001 }"))
	now := time.Unix(1700000000, 0)
	f.Fuzz(func(t *testing.T, body []byte) {
		h := http.Header{}
		inBody.Sign([]byte("s"), body, h, now)
		if err := inBody.Verify([]byte("s"), body, h, now); err == nil && !strings.Contains(string(body), "16999") && !strings.Contains(string(body), "17000") {
			t.Fatalf("accepted without a time: %q", body)
		}
	})
}
