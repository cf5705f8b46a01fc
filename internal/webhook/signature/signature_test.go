package signature_test

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/waypost/waypost/internal/webhook/signature"
)

var (
	timestamped = signature.Timestamped{Header: "Payment-Signature"}
	codeHost    = signature.HMAC{Header: "X-Hub-Signature-256", Prefix: "sha256="}
	generic     = signature.HMAC{Header: "X-Acme-Signature"}
)

const (
	paymentBody   = "{\n  \"id\": \"evt_test_webhook\",\n  \"object\": \"event\"\n}"
	paymentSecret = "whsec_test_secret"
)

func TestPublishedBodyHMACVectors(t *testing.T) {
	t.Parallel()
	for name, v := range map[string]struct {
		secret, body, hex string
		verify            string // the secret verified with, when it is another
		want              error
	}{
		"GitHub's example":   {secret: "It's a Secret to Everybody", body: "Hello, World!", hex: "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"},
		"go-github's":        {secret: "0123456789abcdef", body: `{"yo":true}`, hex: "b1f8020f5b4cd42042f807dd939015c4a418bc1ff7f604dd55b0a19b5d953d9b"},
		"adnanh's":           {secret: "mysecret", body: `{"foo":"bar"}`, hex: "4864d2759938a15468b5df9ade20bf161da9b4f737ea61794142f3484236bda3"},
		"under another key":  {secret: "mysecret", verify: "foo", body: `{"foo":"bar"}`, hex: "4864d2759938a15468b5df9ade20bf161da9b4f737ea61794142f3484236bda3", want: signature.ErrMismatch},
		"of an empty body":   {secret: "secret", body: "", hex: "f9e66e179b6747ae54108f82f8ade8b3c25d76fd30afde6c395822c530196169"},
		"with an empty key":  {secret: "", body: "", hex: "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad", want: signature.ErrNoSecret},
		"one changed letter": {secret: "It's a Secret to Everybody", body: "Hello, World?", hex: "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17", want: signature.ErrMismatch},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			key := v.secret
			if v.verify != "" {
				key = v.verify
			}
			for _, scheme := range []signature.HMAC{codeHost, generic} {
				h := http.Header{}
				h.Set(scheme.Header, scheme.Prefix+v.hex)
				if err := scheme.Verify([]byte(key), []byte(v.body), h, time.Time{}); !errors.Is(err, v.want) {
					t.Errorf("%s: %v, want %v", scheme.Header, err, v.want)
				}
				signed := http.Header{}
				scheme.Sign([]byte(v.secret), []byte(v.body), signed, time.Time{})
				if v.want == nil && signed.Get(scheme.Header) != scheme.Prefix+v.hex {
					t.Errorf("signed %s", signed.Get(scheme.Header))
				}
			}
		})
	}
}

func TestCodeHostHeaderIsExactlyOnePrefixAnd64Digits(t *testing.T) {
	t.Parallel()
	const secret, body = "0123456789abcdef", `{"yo":true}`
	const digits = "b1f8020f5b4cd42042f807dd939015c4a418bc1ff7f604dd55b0a19b5d953d9b"
	for name, c := range map[string]struct {
		values []string
		want   error
	}{
		"lower case":          {[]string{"sha256=" + digits}, nil},
		"upper case digits":   {[]string{"sha256=" + strings.ToUpper(digits)}, nil},
		"absent":              {nil, signature.ErrMissing},
		"empty":               {[]string{""}, signature.ErrMissing},
		"a word":              {[]string{"yo"}, signature.ErrMalformed},
		"sha1 word":           {[]string{"sha1=yo"}, signature.ErrMalformed},
		"sha1 digits":         {[]string{"sha1=012345"}, signature.ErrMalformed},
		"a true sha1":         {[]string{"sha1=126f2c800419c60137ce748d7672e77b65cf16d6"}, signature.ErrMalformed},
		"upper case prefix":   {[]string{"SHA256=" + digits}, signature.ErrMalformed},
		"no prefix":           {[]string{digits}, signature.ErrMalformed},
		"garbage before":      {[]string{"garbage sha256=" + digits}, signature.ErrMalformed},
		"two in one":          {[]string{"sha256=bad,sha256=" + digits}, signature.ErrMalformed},
		"two good in one":     {[]string{"sha256=" + digits + ",sha256=" + digits}, signature.ErrMalformed},
		"63 digits":           {[]string{"sha256=" + digits[1:]}, signature.ErrMalformed},
		"65 digits":           {[]string{"sha256=" + digits + "0"}, signature.ErrMalformed},
		"128 digits":          {[]string{"sha256=" + digits + digits}, signature.ErrMalformed},
		"not hexadecimal":     {[]string{"sha256=g" + digits[1:]}, signature.ErrMalformed},
		"NUL":                 {[]string{"sha256=\x00" + digits[1:]}, signature.ErrMalformed},
		"not ASCII":           {[]string{"sha256=" + "é" + digits[2:]}, signature.ErrMalformed},
		"space inside":        {[]string{"sha256= " + digits}, signature.ErrMalformed},
		"sent twice good/bad": {[]string{"sha256=" + digits, "sha256=00"}, signature.ErrRepeated},
		"sent twice bad/good": {[]string{"sha256=00", "sha256=" + digits}, signature.ErrRepeated},
		"sent twice equal":    {[]string{"sha256=" + digits, "sha256=" + digits}, signature.ErrRepeated},
		"huge":                {[]string{"sha256=" + strings.Repeat("0", 10<<10)}, signature.ErrMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := http.Header{"X-Hub-Signature-256": c.values}
			if err := codeHost.Verify([]byte(secret), []byte(body), h, time.Time{}); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
	h := http.Header{"X-Hub-Signature": {"sha1=126f2c800419c60137ce748d7672e77b65cf16d6"}}
	if err := codeHost.Verify([]byte(secret), []byte(body), h, time.Time{}); !errors.Is(err, signature.ErrMissing) {
		t.Errorf("the SHA-1 header is looked at: %v", err)
	}
}

func TestPublishedTimestampedVectors(t *testing.T) {
	t.Parallel()
	for _, v := range []struct {
		at                int64
		secret, body, hex string
	}{
		{12345, paymentSecret, paymentBody, "2672d138c9a412830f3bfe2ecc5bfb3277cf6f5b49d0119d77dd6cb64da1257e"},
		{1700000000, paymentSecret, paymentBody, "4f1cd7feda9826e746b7d482c4badebb657398df1099e1046364f6196a230150"},
		{1700000000, "whsec_test_secret_rolled_key", paymentBody, "dc80d0334b78e0dbbc3d5352c151a428b746163b94ad381096bb293b9e650f1e"},
		{1700000000, paymentSecret, "} I am not valid JSON; 123][", "f51cb471b499dfae7485cba9aa31df6549b8e098e60f2a2d2a42829d963fe5a4"},
		{1700000000, paymentSecret, "this is not valid JSON", "3fa12e00c43599d0fb01131fe7ea14cf2b14a671c09b15a72db83cbbc5fb1ff8"},
	} {
		value := fmt.Sprintf("t=%d,v1=%s", v.at, v.hex)
		h := http.Header{"Payment-Signature": {value}}
		at := time.Unix(v.at, 0)
		if err := timestamped.Verify([]byte(v.secret), []byte(v.body), h, at); err != nil {
			t.Errorf("%s: %v", value, err)
		}
		signed := http.Header{}
		timestamped.Sign([]byte(v.secret), []byte(v.body), signed, at)
		if diff := cmp.Diff(h, signed); diff != "" {
			t.Errorf("signed (-want +got):\n%s", diff)
		}
		if err := timestamped.Verify([]byte(v.secret+" "), []byte(v.body), h, at); !errors.Is(err, signature.ErrMismatch) {
			t.Errorf("a secret with a trailing space: %v", err)
		}
	}
}

// The clock stands at 1700000000, where ok is the vectors' sum; old is the sum
// under the secret that was rolled.
func TestTimestampedHeaderCases(t *testing.T) {
	t.Parallel()
	const now = 1700000000
	const ok = "4f1cd7feda9826e746b7d482c4badebb657398df1099e1046364f6196a230150"
	const old = "dc80d0334b78e0dbbc3d5352c151a428b746163b94ad381096bb293b9e650f1e"
	good := "t=1700000000,v1=" + ok
	for value, want := range map[string]error{
		good:                                     nil,
		good + ",v1=potato":                      nil,
		good + ",v1=":                            nil,
		good + ",v0=" + old:                      nil,
		"v1=" + ok + ",t=1700000000":             nil,
		"t=1700000000,v1=bad_signature,v1=" + ok: nil,
		"t=1700000000,v1=" + old + ",v1=" + ok:   nil,
		"t=1700000000,v1=" + strings.ToUpper(ok): nil,
		"t=1700000000" + strings.Repeat(",v1=00", 15) + ",v1=" + ok: nil,
		"t=1700000000" + strings.Repeat(",v1=00", 16) + ",v1=" + ok: signature.ErrMismatch,
		"t=1700000000" + strings.Repeat(",v1=00", 10000):            signature.ErrMalformed,
		"t=1700000000,v1=" + old:                                    signature.ErrMismatch,
		"t=1700000000,v1=bad_signature":                             signature.ErrMismatch,
		"t=1700000000,v1=6465616462656566":                          signature.ErrMismatch,
		"t=1700000000,v1=" + ok[1:]:                                 signature.ErrMismatch,
		"t=1700000000,v1=" + ok + "0":                               signature.ErrMismatch,
		"t=1700000000,v1= " + ok:                                    signature.ErrMismatch,
		"t=1700000000,v0=" + ok:                                     signature.ErrMalformed,
		"t=1700000000, v1=" + ok:                                    signature.ErrMalformed,
		"t=1700000000,V1=" + ok:                                     signature.ErrMalformed,
		"t=1700000000":                                              signature.ErrMalformed,
		"v1=" + ok:                                                  signature.ErrMalformed,
		"t=,v1=" + ok:                                               signature.ErrMalformed,
		"t=":                                                        signature.ErrMalformed,
		"v1,t=1":                                                    signature.ErrMalformed,
		good + ",":                                                  signature.ErrMalformed,
		good + ",t=1700000000":                                      signature.ErrMalformed,
		"t=1," + good:                                               signature.ErrMalformed,
		"bad_header":                                                signature.ErrMalformed,
		"I'm not even a real signature header":                      signature.ErrMalformed,
		"":                                                          signature.ErrMissing,
		"t=-1,v1=" + ok:                                             signature.ErrMalformed,
		"t=+1700000000,v1=" + ok:                                    signature.ErrMalformed,
		"t=01700000000,v1=" + ok:                                    signature.ErrMalformed,
		"t=1700000000.5,v1=" + ok:                                   signature.ErrMalformed,
		"t=1e9,v1=" + ok:                                            signature.ErrMalformed,
		"t=NaN,v1=" + ok:                                            signature.ErrMalformed,
		"t= 1700000000,v1=" + ok:                                    signature.ErrMalformed,
		"t=9223372036854775808,v1=" + ok:                            signature.ErrMalformed,
		"t=-9223372036854775808,v1=" + ok:                           signature.ErrMalformed,
		"t=9223372036854775807,v1=" + ok:                            signature.ErrTooNew,
		"t=1700000000000,v1=" + ok:                                  signature.ErrTooNew,
		"t=0,v1=" + ok:                                              signature.ErrTooOld,
		"t=00,v1=" + ok:                                             signature.ErrMalformed,
		"t=1700000000,v1=\x00" + ok[1:]:                             signature.ErrMismatch,
		"t=\u0661\u0667,v1=" + ok:                                   signature.ErrMalformed,
	} {
		err := timestamped.Verify([]byte(paymentSecret), []byte(paymentBody), http.Header{"Payment-Signature": {value}}, time.Unix(now, 999_999_999))
		if !errors.Is(err, want) {
			t.Errorf("%.80q: %v, want %v", value, err, want)
		}
	}
	for name, values := range map[string][]string{"good then bad": {good, "t=1,v1=00"}, "bad then good": {"t=1,v1=00", good}, "good twice": {good, good}} {
		err := timestamped.Verify([]byte(paymentSecret), []byte(paymentBody), http.Header{"Payment-Signature": values}, time.Unix(now, 0))
		if !errors.Is(err, signature.ErrRepeated) {
			t.Errorf("header sent twice, %s: %v", name, err)
		}
	}
	if err := timestamped.Verify([]byte(paymentSecret), []byte(paymentBody), http.Header{}, time.Unix(now, 0)); !errors.Is(err, signature.ErrMissing) {
		t.Errorf("absent header: %v", err)
	}
	if err := timestamped.Verify(nil, []byte(paymentBody), http.Header{"Payment-Signature": {good}}, time.Unix(now, 0)); !errors.Is(err, signature.ErrNoSecret) {
		t.Errorf("no secret: %v", err)
	}
}

func TestTheWindowIs300WholeSecondsInBothDirections(t *testing.T) {
	t.Parallel()
	signedAt := time.Unix(1700000000, 0)
	h := http.Header{}
	timestamped.Sign([]byte(paymentSecret), []byte(paymentBody), h, signedAt)
	for offset, want := range map[time.Duration]error{
		299 * time.Second:             nil,
		300 * time.Second:             nil,
		300*time.Second + 999_999_999: nil,
		301 * time.Second:             signature.ErrTooOld,
		400 * time.Second:             signature.ErrTooOld,
		-300 * time.Second:            nil,
		-300*time.Second - 1:          signature.ErrTooNew,
		-301 * time.Second:            signature.ErrTooNew,
		-(24 * time.Hour * 365 * 100): signature.ErrTooNew,
		24 * time.Hour * 365 * 200:    signature.ErrTooOld,
	} {
		if err := timestamped.Verify([]byte(paymentSecret), []byte(paymentBody), h, signedAt.Add(offset)); !errors.Is(err, want) {
			t.Errorf("now = t %+v: %v, want %v", offset, err, want)
		}
	}
}

func TestNoErrorDisclosesTheSecretOrTheExpectedSum(t *testing.T) {
	t.Parallel()
	const ok = "4f1cd7feda9826e746b7d482c4badebb657398df1099e1046364f6196a230150"
	err := timestamped.Verify([]byte(paymentSecret), []byte(paymentBody), http.Header{"Payment-Signature": {"t=1700000000,v1=00"}}, time.Unix(1700000000, 0))
	if text := fmt.Sprintf("%+v", err); strings.Contains(text, ok) || strings.Contains(text, paymentSecret) {
		t.Errorf("the error tells too much: %s", text)
	}
}

type scheme interface {
	Verify(secret, body []byte, h http.Header, now time.Time) error
	Sign(secret, body []byte, h http.Header, now time.Time)
	Headers() []string
}

func TestWhatIsSignedVerifiesAndAnyChangedByteDoesNot(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		s := rapid.SampledFrom([]scheme{timestamped, codeHost, generic}).Draw(rt, "scheme")
		secret := rapid.SliceOfN(rapid.Byte(), 1, 80).Draw(rt, "secret")
		body := rapid.SliceOfN(rapid.Byte(), 1, 200).Draw(rt, "body")
		now := time.Unix(rapid.Int64Range(0, 1<<33).Draw(rt, "now"), 0)
		h := http.Header{}
		s.Sign(secret, body, h, now)
		if err := s.Verify(secret, body, h, now); err != nil {
			rt.Fatalf("own signature: %v", err)
		}
		if diff := cmp.Diff([]string{http.CanonicalHeaderKey(s.Headers()[0])}, keys(h), cmpopts.EquateEmpty()); diff != "" {
			rt.Fatalf("headers set (-want +got):\n%s", diff)
		}
		changed := append([]byte(nil), body...)
		changed[rapid.IntRange(0, len(body)-1).Draw(rt, "at")] ^= 1 << rapid.IntRange(0, 7).Draw(rt, "bit")
		if err := s.Verify(secret, changed, h, now); !errors.Is(err, signature.ErrMismatch) {
			rt.Fatalf("a changed byte: %v", err)
		}
	})
}

func keys(h http.Header) []string {
	var names []string
	for name := range h {
		names = append(names, name)
	}
	return names
}

// FuzzTimestamped checks that no header but one with the true sum over its own
// literal timestamp is ever accepted.
func FuzzTimestamped(f *testing.F) {
	const now = 1700000000
	f.Add("t=1700000000,v1=4f1cd7feda9826e746b7d482c4badebb657398df1099e1046364f6196a230150")
	f.Add("t=1700000000,v1=00,v0=1,v1=")
	f.Add("t=01700000000,t=,=,v1")
	f.Fuzz(func(t *testing.T, value string) {
		err := timestamped.Verify([]byte(paymentSecret), []byte(paymentBody), http.Header{"Payment-Signature": {value}}, time.Unix(now, 0))
		if err != nil {
			return
		}
		var literal string
		for part := range strings.SplitSeq(value, ",") {
			if v, ok := strings.CutPrefix(part, "t="); ok {
				literal = v
			}
		}
		at, parseErr := strconv.ParseInt(literal, 10, 64)
		if parseErr != nil || strconv.FormatInt(at, 10) != literal {
			t.Fatalf("accepted a timestamp that is not canonical: %q", value)
		}
		want := http.Header{}
		timestamped.Sign([]byte(paymentSecret), []byte(paymentBody), want, time.Unix(at, 0))
		_, sum, _ := strings.Cut(want.Get("Payment-Signature"), "v1=")
		if !strings.Contains(strings.ToLower(value), "v1="+sum) {
			t.Fatalf("accepted without the sum: %q", value)
		}
	})
}

// FuzzCodeHost checks that exactly one value, in either case of its digits, is
// accepted.
func FuzzCodeHost(f *testing.F) {
	signed := http.Header{}
	codeHost.Sign([]byte(paymentSecret), []byte(paymentBody), signed, time.Time{})
	good := signed.Get(codeHost.Header)
	f.Add(good)
	f.Add("sha256=" + strings.ToUpper(strings.TrimPrefix(good, "sha256=")))
	f.Add("sha256=" + hex.EncodeToString([]byte("deadbeef")))
	f.Fuzz(func(t *testing.T, value string) {
		err := codeHost.Verify([]byte(paymentSecret), []byte(paymentBody), http.Header{codeHost.Header: {value}}, time.Time{})
		same := strings.HasPrefix(value, "sha256=") && strings.EqualFold(value, good)
		if (err == nil) != same {
			t.Fatalf("%q: %v", value, err)
		}
	})
}
