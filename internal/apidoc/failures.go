package apidoc

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// failure is an error answer that operations share.
type failure struct {
	response object
	status   string
	users    []string // operationIds, sorted
	places   []object // where it is, each an operation's responses
}

// shareFailures moves the answers with which operations fail into the components: many
// operations fail in the same way, and most of a description would be repetitions.
func shareFailures(doc object) error {
	all, err := distinctFailures(doc)
	if err != nil || len(all) == 0 {
		return err
	}
	shared := member(member(doc, "components"), "responses")
	for _, f := range all {
		name := f.name()
		if shared[name] != nil {
			name += "In" + pascal(f.users[0])
		}
		name = freeName(shared, name)
		shared[name] = f.response
		for _, responses := range f.places {
			responses[f.status] = object{"$ref": responsePrefix + name}
		}
	}
	return nil
}

// distinctFailures are the error answers that differ in anything, those that most
// operations have first.
func distinctFailures(doc object) ([]*failure, error) {
	known := map[string]*failure{}
	var err error
	eachResponse(doc, func(op object, status string, response object) {
		n, notNumber := strconv.Atoi(status)
		if notNumber != nil || n < http.StatusBadRequest || response["$ref"] != nil {
			return
		}
		written, cause := json.Marshal(response)
		err = cmp.Or(err, cause)
		key := status + " " + string(written)
		f := known[key]
		if f == nil {
			f = &failure{response: response, status: status}
			known[key] = f
		}
		f.users = append(f.users, text(op["operationId"]))
		f.places = append(f.places, op["responses"].(object))
	})
	all := slices.Collect(maps.Values(known))
	for _, f := range all {
		slices.Sort(f.users)
	}
	slices.SortFunc(all, func(a, b *failure) int {
		return cmp.Or(cmp.Compare(len(b.places), len(a.places)), cmp.Compare(a.users[0], b.users[0]), cmp.Compare(a.status, b.status))
	})
	return all, err
}

// longestName is the number of codes that a name is made of at most.
const longestName = 2

// name says what goes wrong, by the codes after which examples are named, or where there
// are many, by the status: NotFound, TokenReplacedOrTooManyTokens, Forbidden.
func (f *failure) name() string {
	codes := map[string]bool{}
	eachOf(f.response["content"], func(media object) {
		named, _ := media["examples"].(object)
		for code := range named {
			codes[pascal(code)] = true
		}
	})
	if n := len(codes); n == 0 || n > longestName {
		n, _ := strconv.Atoi(f.status)
		return cmp.Or(pascal(http.StatusText(n)), "Status"+f.status)
	}
	return strings.Join(slices.Sorted(maps.Keys(codes)), "Or")
}

// pascal joins words as the names of schemas are: "too_many-tokens" is TooManyTokens.
func pascal(s string) string {
	var out strings.Builder
	for word := range strings.FieldsFuncSeq(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9')
	}) {
		out.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return out.String()
}

// pruneResponses drops shared responses that no operation has.
func pruneResponses(doc object) {
	components, _ := doc["components"].(object)
	shared, ok := components["responses"].(object)
	if !ok {
		return
	}
	used := map[string]bool{}
	eachResponse(doc, func(_ object, _ string, response object) {
		if name, ok := strings.CutPrefix(text(response["$ref"]), responsePrefix); ok {
			used[name] = true
		}
	})
	if maps.DeleteFunc(shared, func(name string, _ any) bool { return !used[name] }); len(shared) == 0 {
		delete(components, "responses")
	}
}
