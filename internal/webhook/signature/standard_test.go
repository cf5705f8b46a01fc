package signature_test

import (
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waypost/waypost/internal/webhook/signature"
)

// The vector of the specification's reference libraries.
const (
	standardSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	standardID     = "msg_p5jXN8AQM9LWM0D4loKWxJek"
	standardBody   = `{"test": 2432232314}`
	standardSum    = "g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
	standardAt     = 1614265330
)

func standardHeader(id, t, list string) http.Header {
	h := http.Header{}
	for name, value := range map[string]string{"webhook-id": id, "webhook-timestamp": t, "webhook-signature": list} {
		if value != "" {
			h.Set(name, value)
		}
	}
	return h
}

func TestPublishedStandardWebhooksVector(t *testing.T) {
	t.Parallel()
	want := standardHeader(standardID, "1614265330", "v1,"+standardSum)
	for _, secret := range []string{standardSecret, strings.TrimPrefix(standardSecret, "whsec_")} {
		if err := (signature.Standard{}).Verify([]byte(secret), []byte(standardBody), want, time.Unix(standardAt, 0)); err != nil {
			t.Errorf("secret %s: %v", secret, err)
		}
		h := http.Header{"Webhook-Id": {standardID}}
		signature.Standard{}.Sign([]byte(secret), []byte(standardBody), h, time.Unix(standardAt, 0))
		if diff := cmp.Diff(want, h); diff != "" {
			t.Errorf("signed (-want +got):\n%s", diff)
		}
	}
}

func TestStandardWebhooksHeaderCases(t *testing.T) {
	t.Parallel()
	const good, now = "v1," + standardSum, "1614265330"
	bad := "v1," + strings.Replace(standardSum, "OE=", "OA=", 1)
	for name, c := range map[string]struct {
		header http.Header
		want   error
	}{
		"good":                        {standardHeader(standardID, now, good), nil},
		"good among bad":              {standardHeader(standardID, now, bad+" v2,"+standardSum[:8]+" "+good+" "+bad), nil},
		"good as the 16th":            {standardHeader(standardID, now, strings.Repeat(bad+" ", 15)+good), nil},
		"good as the 17th":            {standardHeader(standardID, now, strings.Repeat(bad+" ", 16)+good), signature.ErrMismatch},
		"another last digit":          {standardHeader(standardID, now, bad), signature.ErrMismatch},
		"stray bits in the last one":  {standardHeader(standardID, now, "v1,"+strings.Replace(standardSum, "OE=", "OF=", 1)), signature.ErrMismatch},
		"no padding":                  {standardHeader(standardID, now, strings.TrimSuffix(good, "=")), signature.ErrMismatch},
		"no sum":                      {standardHeader(standardID, now, "v1,"), signature.ErrMismatch},
		"no version":                  {standardHeader(standardID, now, standardSum), signature.ErrMalformed},
		"asymmetric only":             {standardHeader(standardID, now, "v1a,"+standardSum), signature.ErrMalformed},
		"upper case version":          {standardHeader(standardID, now, "V1,"+standardSum), signature.ErrMalformed},
		"in hexadecimal":              {standardHeader(standardID, now, "v1,"+strings.Repeat("ab", 32)), signature.ErrMismatch},
		"separated by commas":         {standardHeader(standardID, now, bad+","+good), signature.ErrMismatch},
		"no id":                       {standardHeader("", now, good), signature.ErrMissing},
		"no timestamp":                {standardHeader(standardID, "", good), signature.ErrMissing},
		"no signature":                {standardHeader(standardID, now, ""), signature.ErrMissing},
		"another id":                  {standardHeader(standardID+"x", now, good), signature.ErrMismatch},
		"an id with a full stop":      {standardHeader("msg.1", now, good), signature.ErrMalformed},
		"timestamp hello":             {standardHeader(standardID, "hello", good), signature.ErrMalformed},
		"timestamp 01614265330":       {standardHeader(standardID, "01614265330", good), signature.ErrMalformed},
		"timestamp +1614265330":       {standardHeader(standardID, "+1614265330", good), signature.ErrMalformed},
		"timestamp with a fraction":   {standardHeader(standardID, "1614265330.0", good), signature.ErrMalformed},
		"timestamp in milliseconds":   {standardHeader(standardID, "1614265330000", good), signature.ErrTooNew},
		"another timestamp":           {standardHeader(standardID, "1614265331", good), signature.ErrMismatch},
		"signature over 8 KiB":        {standardHeader(standardID, now, strings.Repeat(bad+" ", 300)+good), signature.ErrMalformed},
		"signature twice":             {http.Header{"Webhook-Id": {standardID}, "Webhook-Timestamp": {now}, "Webhook-Signature": {good, good}}, signature.ErrRepeated},
		"id twice":                    {http.Header{"Webhook-Id": {standardID, standardID}, "Webhook-Timestamp": {now}, "Webhook-Signature": {good}}, signature.ErrRepeated},
		"timestamp twice, good first": {http.Header{"Webhook-Id": {standardID}, "Webhook-Timestamp": {now, "1"}, "Webhook-Signature": {good}}, signature.ErrRepeated},
	} {
		err := signature.Standard{}.Verify([]byte(standardSecret), []byte(standardBody), c.header, time.Unix(standardAt, 0))
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

func TestTheStandardWebhooksWindowAndSecrets(t *testing.T) {
	t.Parallel()
	h := standardHeader(standardID, "1614265330", "v1,"+standardSum)
	for offset, want := range map[int64]error{300: nil, 301: signature.ErrTooOld, -300: nil, -301: signature.ErrTooNew} {
		err := signature.Standard{}.Verify([]byte(standardSecret), []byte(standardBody), h, time.Unix(standardAt+offset, 999_999_999))
		if !errors.Is(err, want) {
			t.Errorf("now = t%+d: %v, want %v", offset, err, want)
		}
	}
	for secret, want := range map[string]error{
		"": signature.ErrNoSecret, "whsec_": signature.ErrNoSecret, "whsec_=": signature.ErrNoSecret,
		"whsec_not base64!": signature.ErrBadSecret, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSx": signature.ErrMismatch,
		standardSecret + "\n": signature.ErrBadSecret,
	} {
		err := signature.Standard{}.Verify([]byte(secret), []byte(standardBody), h, time.Unix(standardAt, 0))
		if !errors.Is(err, want) {
			t.Errorf("secret %q: %v, want %v", secret, err, want)
		}
		if err != nil && secret != "" && secret != "whsec_" && strings.Contains(err.Error(), secret) {
			t.Errorf("the error shows the secret: %v", err)
		}
	}
}

func TestASchemeNeedsANameForItsHeader(t *testing.T) {
	t.Parallel()
	for name, ok := range map[string]bool{"X-Acme-Signature": true, "x_sig": true, "": false, "X Acme": false, "X-Acme:": false, "é": false, "a\n": false} {
		for _, err := range []error{signature.HMAC{Header: name}.Validate(), signature.Timestamped{Header: name}.Validate()} {
			if (err == nil) != ok {
				t.Errorf("%q: %v", name, err)
			}
		}
	}
}

// FuzzStandard checks that no headers but ones with the true sum over their own
// literal id and timestamp are ever accepted.
func FuzzStandard(f *testing.F) {
	f.Add(standardID, "1614265330", "v1,"+standardSum)
	f.Add("a", "0", "v1,= v1a,x  v1,")
	f.Add("a.1", "99999999999999999999", "v1")
	f.Fuzz(func(t *testing.T, id, at, list string) {
		h := http.Header{"Webhook-Id": {id}, "Webhook-Timestamp": {at}, "Webhook-Signature": {list}}
		if err := (signature.Standard{}).Verify([]byte(standardSecret), []byte(standardBody), h, time.Unix(standardAt, 0)); err != nil {
			return
		}
		if id != standardID || at != "1614265330" {
			t.Fatalf("accepted id %q at %q, which nobody signed", id, at)
		}
		if !strings.Contains(list, "v1,"+standardSum) {
			t.Fatalf("accepted without the sum: %q", list)
		}
	})
}

// FuzzHMAC checks that exactly the sum in hexadecimal digits is accepted by the
// generic scheme, which has no prefix.
func FuzzHMAC(f *testing.F) {
	signed := http.Header{}
	generic.Sign([]byte(paymentSecret), []byte(paymentBody), signed, time.Time{})
	good := signed.Get(generic.Header)
	f.Add(good)
	f.Add("sha256=" + good)
	f.Add(base64.StdEncoding.EncodeToString([]byte(good)))
	f.Fuzz(func(t *testing.T, value string) {
		err := generic.Verify([]byte(paymentSecret), []byte(paymentBody), http.Header{generic.Header: {value}}, time.Time{})
		if (err == nil) != (len(value) == len(good) && strings.EqualFold(value, good)) {
			t.Fatalf("%q: %v", value, err)
		}
	})
}
