package api

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/waypost/waypost/internal/identity"
)

// Why an operation is for people, and no tool for assistants. An assistant does what
// texts tell it to, those of strangers included, and what it reads goes elsewhere.
const (
	signingIn   = "how somebody signs in is up to that person alone"
	credentials = "it makes, lists or ends credentials"
	fileBytes   = "it is about a file's bytes, which are fetched and sent without the assistant"
)

// Why operations are no tools by what they are.
const (
	forSites    = "it takes a site's key, not an account's token"
	forModels   = "it is for clients of language models, and not for the models"
	takesNoJSON = "its body is not JSON"
	givesNoJSON = "its answer is not JSON"
)

// modelPaths are the operations of the AI gateway.
const modelPaths = "/api/ai/v1/"

// withheldKey holds the names of the parameters that a tool has not, in an operation's
// metadata.
const withheldKey = "waypost.withheld"

// forPeople says that no assistant is offered the operation as a tool, and why.
func (a Access) forPeople(why string) Access {
	a.people = why
	return a
}

// withholdFromTools says that a tool has not these parameters, which ask for an answer that
// is not JSON.
func withholdFromTools(op *huma.Operation, parameters ...string) {
	if op.Metadata == nil {
		op.Metadata = map[string]any{}
	}
	op.Metadata[withheldKey] = parameters
}

// Tool is an operation as assistants are offered it (Model Context Protocol).
type Tool struct {
	OperationID string
	// Withheld says why assistants are not offered it; "" where they are.
	Withheld string
	// Without are the parameters that it has not.
	Without []string
	// MaxBody is the size in bytes of the largest body that it takes.
	MaxBody int64

	method  string
	access  Access
	targets []Target
}

// Tools says of every operation that is declared whether and to whom it is offered, in the
// order of the operationIds. Handlers that are no operations are never offered: who calls
// them is no account.
func Tools(doc *huma.OpenAPI) []Tool {
	var list []Tool
	for path, item := range doc.Paths {
		for method, op := range methodsOf(item) {
			a, declared := op.Metadata[accessKey].(Access)
			if !declared {
				continue
			}
			t := Tool{
				OperationID: op.OperationID, Withheld: withheld(path, op, a), MaxBody: op.MaxBodyBytes,
				method: method, access: a, targets: a.targets(method),
			}
			t.Without, _ = op.Metadata[withheldKey].([]string)
			list = append(list, t)
		}
	}
	slices.SortFunc(list, func(a, b Tool) int { return cmp.Compare(a.OperationID, b.OperationID) })
	return list
}

// withheld says why an operation is no tool, "" if it is one.
func withheld(path string, op *huma.Operation, a Access) string {
	switch {
	case a.people != "":
		return a.people
	case a.scheme == schemeSiteKey:
		return forSites
	case strings.HasPrefix(path, modelPaths):
		return forModels
	case op.RequestBody != nil && !takesJSON(op):
		return takesNoJSON
	case !givesJSON(op):
		return givesNoJSON
	}
	return ""
}

// givesJSON reports whether each success of op has a body in JSON, or none where there is
// nothing to say. A redirect is for browsers.
func givesJSON(op *huma.Operation) bool {
	for status, answer := range op.Responses {
		switch {
		case status >= "400":
		case status >= "300", len(answer.Content) > 0 && answer.Content["application/json"] == nil:
			return false
		}
	}
	return true
}

// OpenTo reports whether p may call the operation, whatever it is about: whether the guard
// lets p in, and there is something that p would not be refused.
func (t Tool) OpenTo(p identity.Principal) bool {
	switch {
	case t.Withheld != "":
		return false
	case t.access.scheme == "":
		return true
	case t.access.allows(p, t.method) != nil:
		return false
	}
	return slices.ContainsFunc(t.targets, func(about Target) bool {
		return slices.Contains(about.Roles, p.Role) && (p.TokenID == 0 || p.Scopes.Has(about.Scopes...)) && (!p.Service || about.Bots == 0)
	})
}

// Caller says whose a request is, as the guard does, or returns an error of the guard. The
// request that it returns spares the first operation within it to ask again: a call of a tool
// is one request of its account.
func Caller(accounts Authenticator) func(*http.Request) (*http.Request, identity.Principal, error) {
	return func(r *http.Request) (*http.Request, identity.Principal, error) {
		token, err := bearerToken(r.Header)
		if err != nil {
			return nil, identity.Principal{}, err
		}
		p, err := accounts.Authenticate(r.Context(), token)
		if err != nil {
			return nil, identity.Principal{}, err
		}
		return r.WithContext(vouch(r.Context(), token, p)), p, nil
	}
}

// ReadBody reads a body of JSON, of at most limit bytes.
func ReadBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	return readBody(w, r, limit, errMediaType, "application/json")
}
