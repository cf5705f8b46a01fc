package aigateway

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/waypost/waypost/internal/aigateway/anthropic"
	"github.com/waypost/waypost/internal/aigateway/openai"
	"github.com/waypost/waypost/internal/aigateway/sse"
	"github.com/waypost/waypost/internal/aigateway/upstream"
)

// operation is what is asked of a model.
type operation int

const (
	chat operation = iota
	embeddings
)

var errNoEmbeddings = &openai.RequestError{Param: "model", Message: "This model has no embeddings."}

// requestFor writes a request as a target's upstream understands it. It returns an
// *openai.RequestError for what that can't do.
func requestFor(op operation, r *openai.Request, u Upstream, t Target, maxOutput int64, key string) (upstream.Request, error) {
	h := http.Header{"Content-Type": {"application/json"}, "User-Agent": {"Waypost"}, "Accept": {"application/json"}}
	if op == chat && r.Stream {
		h.Set("Accept", "text/event-stream")
	}
	if u.Kind == Anthropic {
		if op == embeddings {
			return upstream.Request{}, errNoEmbeddings
		}
		body, err := anthropic.Request(r, t.Model, maxOutput)
		h.Set("anthropic-version", anthropic.Version)
		if key != "" {
			h.Set("x-api-key", key)
		}
		return upstream.Request{URL: u.BaseURL + "/v1/messages", Header: h, Body: body}, err
	}
	if key != "" {
		h.Set("Authorization", "Bearer "+key)
	}
	base := u.BaseURL
	if u.Kind == Echo {
		base = "http://echo.invalid"
	}
	if op == embeddings {
		return upstream.Request{URL: base + "/embeddings", Header: h, Body: r.Embeddings(t.Model)}, nil
	}
	return upstream.Request{URL: base + "/chat/completions", Header: h, Body: r.Chat(t.Model, maxOutput, isOpenAI(u.BaseURL))}, nil
}

// isOpenAI reports whether an upstream is OpenAI itself, or its service at Azure.
func isOpenAI(baseURL string) bool {
	u, err := url.Parse(baseURL)
	return err == nil && (u.Hostname() == "api.openai.com" || strings.HasSuffix(u.Hostname(), ".openai.azure.com"))
}

// translate reads a whole answer: what the client gets, and what is in it.
func translate(u Upstream, body []byte, now time.Time) ([]byte, openai.Contents, error) {
	if u.Kind == Anthropic {
		return anthropic.Answer(body, now.Unix())
	}
	c, err := new(openai.Scanner).Scan(body)
	return body, c, err
}

// pieces are a stream of an upstream in OpenAI's form. Next returns a chunk, nil for one
// that is not for the client, and what is in it; io.EOF at the end of a whole stream.
type pieces interface {
	Next() ([]byte, openai.Contents, error)
	// More reports whether Next would not wait.
	More() bool
}

func piecesOf(u Upstream, body io.Reader, includeUsage bool, now time.Time) pieces {
	if u.Kind == Anthropic {
		return anthropic.NewStream(body, includeUsage, now.Unix())
	}
	return &openaiPieces{events: sse.NewReader(body), includeUsage: includeUsage}
}

// openaiPieces leave chunks as they are, but for what they say was used to a client that
// didn't ask.
type openaiPieces struct {
	events       *sse.Reader
	scanner      openai.Scanner
	includeUsage bool
}

func (p *openaiPieces) More() bool { return p.events.More() }

func (p *openaiPieces) Next() ([]byte, openai.Contents, error) {
	e, err := p.events.Next()
	switch {
	case errors.Is(err, io.EOF): // without [DONE] it is cut
		return nil, openai.Contents{Stated: openai.Nothing()}, io.ErrUnexpectedEOF
	case errors.Is(err, sse.ErrTooLarge):
		return nil, openai.Contents{Stated: openai.Nothing()}, openai.ErrMalformed
	case err != nil:
		return nil, openai.Contents{Stated: openai.Nothing()}, err
	case string(e.Data) == "[DONE]":
		return nil, openai.Contents{Stated: openai.Nothing()}, io.EOF
	}
	c, err := p.scanner.Scan(e.Data)
	switch {
	case err != nil || !c.Usage || p.includeUsage:
		return e.Data, c, err
	case !c.Choices:
		return nil, c, nil
	}
	without, err := openai.WithoutUsage(e.Data)
	return without, c, err
}
