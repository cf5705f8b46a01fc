// Package outside speaks to a running service as its clients do, for tests that know
// nothing else of it.
package outside

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Patience bounds every wait for something that a loaded machine may delay.
const Patience = 90 * time.Second

// Password is that of the accounts that tests make.
const Password = "correct horse battery staple"

// Answer is a whole HTTP answer.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Into decodes the answer's body, which must be JSON.
func (a Answer) Into(t *testing.T, v any) {
	t.Helper()
	if err := json.Unmarshal(a.Body, v); err != nil {
		t.Fatalf("status %d, not the JSON expected (%v): %.500s", a.Status, err, a.Body)
	}
}

func (a Answer) MediaType() string {
	MediaType, _, _ := strings.Cut(a.Header.Get("Content-Type"), ";")
	return MediaType
}

// ErrorCode is the code in an error's envelope, "" for none.
func (a Answer) ErrorCode() string {
	var e struct{ Error struct{ Code string } }
	if json.Unmarshal(a.Body, &e) != nil {
		return ""
	}
	return e.Error.Code
}

// Do sends a request, follows redirects and reads the answer. The header is names and
// values in turn.
func Do(t *testing.T, method, url, body string, header ...string) Answer {
	t.Helper()
	return Exchange(t, http.DefaultClient, method, url, body, header...)
}

// Exchange is Do through a client of its own.
func Exchange(t *testing.T, through *http.Client, method, url, body string, header ...string) Answer {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	res, err := through.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return Answer{res.StatusCode, res.Header, b}
}

// Bearer is the header of who has a token.
func Bearer(token string) []string { return []string{"Authorization", "Bearer " + token} }

// JSON is a value as the text of a body.
func JSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// Form is a body with one file, and its media type.
func Form(contentType, content string) ([]byte, []string) {
	return FormOf("file", "notes.txt", contentType, content)
}

// FormOf is Form with the names of the part and of the file.
func FormOf(part, filename, contentType, content string) ([]byte, []string) {
	var b bytes.Buffer
	m := multipart.NewWriter(&b)
	w, err := m.CreatePart(textproto.MIMEHeader{
		"Content-Disposition": {fmt.Sprintf(`form-data; name=%q; filename=%q`, part, filename)}, "Content-Type": {contentType},
	})
	if err == nil {
		_, err = w.Write([]byte(content))
	}
	if err == nil {
		err = m.Close()
	}
	if err != nil {
		panic(err) // a buffer takes everything
	}
	return b.Bytes(), []string{"Content-Type", m.FormDataContentType()}
}

// PaymentSecret is what the provider payment signs with in tests.
const PaymentSecret = "a payment secret"

// MAC is the HMAC-SHA256 of a message in hexadecimal digits.
func MAC(secret, message string) string {
	h := hmac.New(sha256.New, []byte(secret))
	h.Write([]byte(message))
	return hex.EncodeToString(h.Sum(nil))
}

// PaymentSignature is the value of Payment-Signature for a body sent now.
func PaymentSignature(secret, body string) string {
	t := strconv.FormatInt(time.Now().Unix(), 10)
	return "t=" + t + ",v1=" + MAC(secret, t+"."+body)
}

// Receipt is what a provider is answered.
type Receipt struct {
	Status     string
	Reason     string
	ID         string
	EventType  string `json:"event_type"`
	ExternalID string `json:"external_id"`
}
