package signature

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Recipe says how a scheme signs: to people, and to programs that sign by
// themselves, such as the scripts of an exported collection.
type Recipe struct {
	// Header is where the signature stands.
	Header string
	// Text says in Markdown what stands there.
	Text string
	// Message is what the HMAC is of, Value what Header holds. {body} stands for
	// the bytes that are sent, {timestamp} for Unix seconds, {id} for the event's id,
	// and in Value {hmac} for the sum and {secret} for the secret itself. Without a
	// Message nothing is computed.
	Message, Value string
	// Digest is the HMAC's; "" is SHA256.
	Digest Digest
	// Base64 says that the secret is a key in base64, with or without whsec_ before
	// it, and that the sum is in base64. Otherwise the secret is the key as it stands,
	// and the sum is in hexadecimal digits; with Base64Sum in base64.
	Base64, Base64Sum bool
	// More are the headers that are sent besides, with the same placeholders.
	More map[string]string
	// ByHand says that programs can't follow it, since the signed body must hold the time
	// of the sending.
	ByHand bool
}

// Recipe implements what a description of the scheme needs.
func (s HMAC) Recipe() Recipe { return s.Scheme().Recipe() }

// Recipe implements what a description of the scheme needs.
func (s Timestamped) Recipe() Recipe {
	r := s.Scheme().Recipe()
	r.Text = "`t=<unix seconds>,v1=<hex>`, where v1 is the HMAC-SHA256 of `<t>.<body>` under the provider's secret. " +
		"If there are several v1, one must match; `t` must be within 300 seconds of the receiver's clock."
	return r
}

// Recipe implements what a description of the scheme needs.
func (s Standard) Recipe() Recipe {
	r := s.Scheme().Recipe()
	r.Text = "`v1,<base64>`, as in the Standard Webhooks specification: the HMAC-SHA256 of `<webhook-id>.<webhook-timestamp>.<body>` under the provider's secret, " +
		"which is a key in base64. If there are several signatures, one must match; the timestamp must be within 300 seconds of the receiver's clock."
	return r
}

// Recipe implements what a description of the scheme needs.
func (s Token) Recipe() Recipe {
	return Recipe{Header: s.Header, Text: "`" + s.Prefix + "<secret>`: the provider's secret itself.", Value: s.Prefix + "{secret}"}
}

// Recipe implements what a description of the scheme needs.
func (s Scheme) Recipe() Recipe {
	r := Recipe{
		Header: s.Header, Text: s.text(), Message: s.template(), Value: s.Prefix + "{hmac}", Digest: s.Digest,
		Base64: s.Encoding == Base64 && s.Key == Base64Key, Base64Sum: s.Encoding == Base64 && s.Key != Base64Key,
		ByHand: s.Milliseconds || s.TimestampField != "" || s.Encoding != Base64 && s.Key == Base64Key,
	}
	if s.TimestampPrefix != "" {
		r.Value = s.TimestampPrefix + "{timestamp}" + s.Separator + r.Value
	}
	more := map[string]string{}
	if s.TimestampHeader != "" {
		more[http.CanonicalHeaderKey(s.TimestampHeader)] = placeTimestamp
	}
	if s.IDHeader != "" {
		more[http.CanonicalHeaderKey(s.IDHeader)] = placeID
	}
	if len(more) > 0 {
		r.More = more
	}
	return r
}

// text says in a few sentences what Header holds.
func (s Scheme) text() string {
	of := "the body"
	if t := s.template(); t != placeBody {
		names := strings.NewReplacer(placeTimestamp, "<"+cmp.Or(strings.ToLower(s.TimestampHeader), "timestamp")+">", placeID, "<"+strings.ToLower(s.IDHeader)+">", placeBody, "<body>")
		of = "`" + names.Replace(t) + "`"
	}
	value := s.Prefix + "<" + string(cmp.Or(s.Encoding, Hex)) + ">"
	if s.TimestampPrefix != "" {
		value = s.TimestampPrefix + "<timestamp>" + s.Separator + value
	}
	text := fmt.Sprintf("`%s`: the HMAC-%s of %s under the provider's secret.", value, strings.ToUpper(string(cmp.Or(s.Digest, SHA256))), of)
	if s.Key == Base64Key {
		text = strings.TrimSuffix(text, ".") + ", which is a key in base64."
	}
	if s.Separator != "" {
		text += " If there are several signatures, one must match."
	}
	if s.TimestampField != "" {
		text += " The body's `" + s.TimestampField + "` says when it was sent."
	}
	if s.TimestampPrefix+s.TimestampHeader+s.TimestampField != "" {
		unit := "seconds"
		if s.Milliseconds {
			unit = "milliseconds"
		}
		text += fmt.Sprintf(" The timestamp counts Unix %s, and must be within %d seconds of the receiver's clock.", unit, cmp.Or(s.Tolerance, defaultTolerance)/time.Second)
	}
	return text
}
