package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/waypost/waypost/internal/httpedge"
)

// noStore is of every answer: what is in it depends on whose the request is.
const noStore = "private, no-store"

// request is what the protocol's server gets: the messages as they were written anew, and of
// the headers only its own. Whatever a client accepts, it gets JSON.
func (x *exchange) request(body []byte) *http.Request {
	r := x.outer.Clone(context.WithValue(x.outer.Context(), exchangeKey{}, x))
	r.Header = http.Header{"Content-Type": {mediaJSON}, "Accept": {"application/json, text/event-stream"}}
	for _, name := range []string{versionHeader, "Mcp-Method", "Mcp-Name"} {
		if values := x.outer.Header[name]; len(values) > 0 {
			r.Header[name] = values
		}
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return r
}

// heldAnswer keeps what the protocol's server answers, to be mended.
type heldAnswer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (a *heldAnswer) Header() http.Header { return a.header }

func (a *heldAnswer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
}

func (a *heldAnswer) Write(b []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(b)
}

// response is one of JSON-RPC.
type response struct {
	Version string         `json:"jsonrpc"`
	ID      jsontext.Value `json:"id"`
	Result  jsontext.Value `json:"result,omitempty"`
	Error   *problem       `json:"error,omitempty"`
}

// send passes the answer on, with our own words where it is an error. What is no JSON never
// leaves: it is the server's idea of an HTTP error.
func (a *heldAnswer) send(w http.ResponseWriter, r *http.Request) {
	if err := r.Context().Err(); err != nil && a.body.Len() == 0 {
		httpedge.WriteError(w, r, err) // the time was over, or the client is gone
		return
	}
	if a.header.Get("Content-Type") != mediaJSON {
		if a.status == http.StatusBadRequest { // it is strict where we are not
			writeProblem(w, r, errMessage)
			return
		}
		httpedge.WriteError(w, r, fmt.Errorf("mcp: the protocol's server answered %d %q", a.status, a.body.String()))
		return
	}
	body, err := mend(a.body.Bytes())
	if err != nil {
		httpedge.WriteError(w, r, err)
		return
	}
	write(w, a.status, body)
}

// mend replaces the texts of errors.
func mend(body []byte) ([]byte, error) {
	batch := bytes.HasPrefix(bytes.TrimSpace(body), []byte{'['})
	list := make([]response, 1)
	var err error
	if batch {
		err = json.Unmarshal(body, &list)
	} else {
		err = json.Unmarshal(body, &list[0])
	}
	if err != nil {
		return nil, fmt.Errorf("mcp: the protocol's server answered no JSON-RPC: %w", err)
	}
	mended := false
	for i := range list {
		if list[i].Error != nil {
			list[i].Error, mended = list[i].Error.mended(), true
		}
	}
	switch {
	case !mended:
		return body, nil
	case batch:
		return json.Marshal(list)
	}
	return json.Marshal(list[0])
}

// ours are the sentences of problems that are told apart by more than their code.
var ours = map[string]bool{errTool.Message: true, errCursor.Message: true, errArguments.Message: true}

// mended is the problem in our own words. The others are not for the log either: they quote
// requests.
func (p *problem) mended() *problem {
	if ours[p.Message] {
		return p
	}
	code := p.Code
	if sentences[code] == "" { // it gives some errors about parameters no code
		code = codeParams
	}
	out := newProblem(code, sentences[code])
	if p.Code == codeVersion {
		out.Data = p.Data
	}
	return out
}

// writeProblem answers 400, and 404 for a method that newer clients know by that status
// from one that an older service lacks.
func writeProblem(w http.ResponseWriter, r *http.Request, p *problem) {
	status := http.StatusBadRequest
	if p.Code == codeMethod {
		if status = http.StatusOK; r.Header.Get(versionHeader) >= withStatuses {
			status = http.StatusNotFound
		}
	}
	id := p.id
	if id == nil {
		id = jsontext.Value("null")
	}
	body, err := json.Marshal(response{Version: "2.0", ID: id, Error: p})
	if err != nil {
		panic("mcp: a problem that JSON can't carry: " + err.Error())
	}
	write(w, status, body)
}

func write(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", mediaJSON)
	w.Header().Set("Cache-Control", noStore)
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // the client is gone when this fails
}
