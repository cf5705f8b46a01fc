package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Codes of errors: JSON-RPC 2.0, section 5.1, and the Model Context Protocol.
const (
	codeParse          = -32700
	codeInvalid        = -32600
	codeMethod         = -32601
	codeParams         = -32602
	codeInternal       = -32603
	codeHeaderMismatch = -32020
	codeCapability     = -32021
	codeVersion        = -32022
)

// Bounds of what is sent.
const (
	maxBatch     = 20
	maxDepth     = 128
	maxBeside    = 64 << 10 // bytes
	maxArguments = 100
)

// problem is an error of JSON-RPC.
type problem struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
	id      jsontext.Value
}

func newProblem(code int, message string) *problem { return &problem{Code: code, Message: message} }

// of says which message it is about.
func (p *problem) of(m message) *problem {
	out := *p
	out.id = m.ID
	return &out
}

// The problems that are found here. What else is wrong with a message is for sentences by
// code: see sentences.
var (
	errParse     = newProblem(codeParse, sentences[codeParse])
	errMessage   = newProblem(codeInvalid, sentences[codeInvalid])
	errDepth     = newProblem(codeInvalid, "The message is nested too deeply.")
	errBatch     = newProblem(codeInvalid, "A batch holds 1 to 20 messages.")
	errNoBatch   = newProblem(codeInvalid, "This version of the protocol has no batches.")
	errNoParams  = newProblem(codeParams, sentences[codeParams])
	errSameID    = newProblem(codeInvalid, "Two messages of the batch have the same id.")
	errVersion   = newProblem(codeVersion, sentences[codeVersion])
	errMethod    = newProblem(codeMethod, sentences[codeMethod])
	errArguments = newProblem(codeParams, "`arguments` is an object with at most 100 members, or left out.")
	errTool      = newProblem(codeParams, "There is no such tool. tools/list shows those that there are.")
	errCursor    = newProblem(codeParams, "There is no such page: the first one has all tools.")
)

// sentences are what errors of a code say, in place of what the protocol's server says: it
// quotes requests, and the names of its own types.
var sentences = map[int]string{
	codeParse:          "The body is not well-formed JSON.",
	codeInvalid:        "This is no request of JSON-RPC 2.0 as the Model Context Protocol has it.",
	codeMethod:         "There is no such method.",
	codeParams:         "The parameters are not what this method takes.",
	codeInternal:       "Something went wrong on our side. Quote the request id when you report it.",
	codeHeaderMismatch: "The headers Mcp-Protocol-Version, Mcp-Method and Mcp-Name must say what the body says.",
	codeCapability:     "A capability is missing that this needs.",
	codeVersion:        "This version of the protocol is not supported; the data say which are.",
}

// methods are those that are answered, and whether they need parameters. Notifications are
// taken, and nothing comes of them.
var methods = map[string]bool{"initialize": true, "ping": false, "tools/list": false, "tools/call": true, "server/discover": true}

// Versions of the protocol from which on something is different.
const (
	versionHeader  = "Mcp-Protocol-Version"
	withoutBatches = "2025-06-18"
	withStatuses   = "2026-07-28" // of HTTP, for some errors of JSON-RPC
)

// checkVersion judges the version that a request names; it need not name one. Those to come
// are told by the protocol's server, as that version wants it.
func checkVersion(version string, batch bool) *problem {
	supported := sdk.SupportedProtocolVersions()
	switch {
	case version != "" && version < withStatuses && !slices.Contains(supported, version):
		p := *errVersion
		var err error
		if p.Data, err = json.Marshal(sdk.UnsupportedProtocolVersionData{Supported: supported, Requested: version}); err != nil {
			return errVersion
		}
		return &p
	case batch && version >= withoutBatches:
		return errNoBatch
	}
	return nil
}

// message is a request of JSON-RPC. Its members are in the order of its text.
type message struct {
	Version string         `json:"jsonrpc"`
	ID      jsontext.Value `json:"id"`
	Method  string         `json:"method"`
	Params  jsontext.Value `json:"params,omitempty"`
}

type messages []message

// encode writes the messages anew: with these members alone, each of them once.
func (list messages) encode(batch bool) []byte {
	var out bytes.Buffer
	for i, m := range list {
		if i > 0 {
			out.WriteByte(',')
		}
		b, err := json.Marshal(m)
		if err != nil {
			panic("mcp: a message that was read can't be written: " + err.Error())
		}
		out.Write(b)
	}
	if !batch {
		return out.Bytes()
	}
	return append(append([]byte{'['}, out.Bytes()...), ']')
}

// readMessages returns the requests of a body, without notifications. It is strict: what
// it lets pass has one meaning.
func readMessages(body []byte) (list messages, batch bool, _ *problem) {
	d := jsontext.NewDecoder(bytes.NewReader(body))
	whole, err := d.ReadValue()
	if err != nil {
		return nil, false, errParse
	}
	whole = whole.Clone() // the decoder's own with the next token
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, false, errParse
	}
	if depth(whole) > maxDepth {
		return nil, false, errDepth
	}
	values := []jsontext.Value{whole}
	if batch = whole.Kind() == '['; batch {
		if values = elements(whole, maxBatch); len(values) == 0 {
			return nil, true, errBatch
		}
	}
	seen := map[string]bool{}
	for _, v := range values {
		m, p := readMessage(v)
		switch {
		case p != nil:
			return nil, batch, p.of(m)
		case m.ID == nil:
			continue
		case seen[string(m.ID)]:
			return nil, batch, errSameID.of(m)
		}
		switch needsParams, known := methods[m.Method]; {
		case !known:
			return nil, batch, errMethod.of(m)
		case needsParams && m.Params == nil:
			return nil, batch, errNoParams.of(m)
		}
		seen[string(m.ID)] = true
		list = append(list, m)
	}
	return list, batch, nil
}

// readMessage reads one message; the id is set as soon as it is known.
func readMessage(v jsontext.Value) (m message, _ *problem) {
	members := map[string]jsontext.Value{}
	if v.Kind() != '{' {
		return m, errMessage
	}
	eachMember(v, func(name string, value jsontext.Value) bool {
		if slices.Contains([]string{"jsonrpc", "id", "method", "params"}, name) {
			members[name] = value.Clone()
		}
		return true
	})
	if id, there := members["id"]; there {
		if !isID(id) {
			return m, errMessage
		}
		m.ID = id
	}
	if json.Unmarshal(members["jsonrpc"], &m.Version) != nil || m.Version != "2.0" {
		return m, errMessage
	}
	if members["method"].Kind() != '"' || json.Unmarshal(members["method"], &m.Method) != nil {
		return m, errMessage
	}
	if strings.HasPrefix(m.Method, "notifications/") != (m.ID == nil) {
		return m, errMessage
	}
	if m.Params = members["params"]; m.Params != nil && (m.Params.Kind() != '{' || besideArguments(m.Params) > maxBeside) {
		return m, errMessage
	}
	return m, nil
}

// besideArguments is the size of a message's parameters without the arguments of a call, which
// alone are kept as they were sent: all else becomes values, which take many times the room.
func besideArguments(params jsontext.Value) int {
	size := len(params)
	eachMember(params, func(name string, value jsontext.Value) bool {
		if name == "arguments" {
			size -= len(value)
		}
		return true
	})
	return size
}

// eachMember calls f for the members of an object, in their order, while it returns true; a
// value is f's until then. The object is well-formed.
func eachMember(object jsontext.Value, f func(name string, value jsontext.Value) bool) {
	d := jsontext.NewDecoder(bytes.NewBuffer(object))
	if _, err := d.ReadToken(); err != nil {
		return
	}
	for d.PeekKind() != '}' {
		name, err := d.ReadToken()
		if err != nil {
			return
		}
		known := name.String() // the token is gone with the next
		value, err := d.ReadValue()
		if err != nil || !f(known, value) {
			return
		}
	}
}

// elements are those of a list; none if there are more than most.
func elements(list jsontext.Value, most int) []jsontext.Value {
	var values []jsontext.Value
	d := jsontext.NewDecoder(bytes.NewBuffer(list))
	if _, err := d.ReadToken(); err != nil {
		return nil
	}
	for d.PeekKind() != ']' {
		value, err := d.ReadValue()
		if err != nil || len(values) == most {
			return nil
		}
		values = append(values, value.Clone())
	}
	return values
}

// maxID is the length of an id's text.
const maxID = 256

// isID reports whether v is an id: a text or a whole number (the protocol has no null and
// no fractions).
func isID(v jsontext.Value) bool {
	switch v.Kind() {
	case '"':
		return len(v) <= maxID
	case '0':
		return len(v) <= 15 && !bytes.ContainsAny(v, ".eE") // exact in every client
	}
	return false
}

// depth is how many objects and lists are within each other.
func depth(v jsontext.Value) int {
	d, deepest := jsontext.NewDecoder(bytes.NewReader(v)), 0
	for {
		if _, err := d.ReadToken(); err != nil {
			return deepest
		}
		deepest = max(deepest, d.StackDepth())
	}
}
