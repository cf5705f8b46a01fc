package signature

// Recipe says how a scheme signs: to people, and to programs that sign by
// themselves, such as the scripts of an exported collection.
type Recipe struct {
	// Header is where the signature stands.
	Header string
	// Text says in Markdown what stands there.
	Text string
	// Message is what the HMAC-SHA256 is of, Value what Header holds. {body} stands for
	// the bytes that are sent, {timestamp} for Unix seconds, {id} for the event's id,
	// and in Value {hmac} for the sum and {secret} for the secret itself. Without a
	// Message nothing is computed.
	Message, Value string
	// Base64 says that the secret is a key in base64, with or without whsec_ before
	// it, and that the sum is in base64. Otherwise the secret is the key as it stands,
	// and the sum is in hexadecimal digits.
	Base64 bool
	// More are the headers that are sent besides, with the same placeholders.
	More map[string]string
}

// Recipe implements what a description of the scheme needs.
func (s HMAC) Recipe() Recipe {
	return Recipe{
		Header: s.Header, Text: "`" + s.Prefix + "<hex>`: the HMAC-SHA256 of the body under the provider's secret.",
		Message: "{body}", Value: s.Prefix + "{hmac}",
	}
}

// Recipe implements what a description of the scheme needs.
func (s Timestamped) Recipe() Recipe {
	return Recipe{
		Header: s.Header,
		Text: "`t=<unix seconds>,v1=<hex>`, where v1 is the HMAC-SHA256 of `<t>.<body>` under the provider's secret. " +
			"If there are several v1, one must match; `t` must be within 300 seconds of the receiver's clock.",
		Message: "{timestamp}.{body}", Value: "t={timestamp},v1={hmac}",
	}
}

// Recipe implements what a description of the scheme needs.
func (Standard) Recipe() Recipe {
	return Recipe{
		Header: standardSignature,
		Text: "`v1,<base64>`, as in the Standard Webhooks specification: the HMAC-SHA256 of `<webhook-id>.<webhook-timestamp>.<body>` under the provider's secret, " +
			"which is a key in base64. If there are several signatures, one must match; the timestamp must be within 300 seconds of the receiver's clock.",
		Message: "{id}.{timestamp}.{body}", Value: "v1,{hmac}", Base64: true,
		More: map[string]string{StandardID: "{id}", standardTimestamp: "{timestamp}"},
	}
}
