package webhook

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// errRefused stands for the reason of a verifier that is a function.
var errRefused = errors.New("webhook: the provider's verifier refused")

// VerifyWith makes a Verifier of a function, which returns nil or why it refuses.
// headers names the headers that carry the signature. The function works on a copy,
// and a panic of it is a refusal.
func VerifyWith(verify func(secret, body []byte, h http.Header) error, headers ...string) Verifier {
	return verifierFunc{verify, headers}
}

type verifierFunc struct {
	verify  func(secret, body []byte, h http.Header) error
	headers []string
}

func (v verifierFunc) Headers() []string { return v.headers }

// Validate returns an error when there is no function.
func (v verifierFunc) Validate() error {
	if v.verify == nil {
		return errors.New("no verifier")
	}
	return nil
}

func (v verifierFunc) Verify(secret, body []byte, h http.Header, _ time.Time) error {
	var refusal error
	func() {
		defer catch(&refusal, errRefused)
		if err := v.verify(secret, bytes.Clone(body), h.Clone()); err != nil {
			refusal = fmt.Errorf("%w: %w", errRefused, err)
		}
	}()
	return refusal
}

// errExtractor stands for the failure of an extractor that is a function.
var errExtractor = errors.New("webhook: the provider's extractor failed")

// ExtractWith makes an Extractor of a function. What the sender may know of its
// error is a *FieldError. The function works on a copy, and a panic of it is an
// error.
func ExtractWith(extract func(body []byte, h http.Header) (eventType, externalID string, err error)) Extractor {
	return extractorFunc{extract}
}

type extractorFunc struct {
	extract func(body []byte, h http.Header) (string, string, error)
}

// Validate returns an error when there is no function.
func (e extractorFunc) Validate() error {
	if e.extract == nil {
		return errors.New("no extractor")
	}
	return nil
}

func (e extractorFunc) Extract(body []byte, h http.Header) (string, string, error) {
	var eventType, externalID string
	var err error
	func() {
		defer catch(&err, errExtractor)
		eventType, externalID, err = e.extract(bytes.Clone(body), h.Clone())
	}()
	return eventType, externalID, err
}

// catch, deferred, turns a panic into an error of the kind.
func catch(err *error, kind error) {
	if v := recover(); v != nil {
		*err = fmt.Errorf("%w: panic: %v", kind, v)
	}
}
