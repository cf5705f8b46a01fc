package truth_test

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/waypost/waypost/e2e/outside"
)

// everywhere are the headers that belong to HTTP, to the connection or to every
// answer alike.
var everywhere = []string{
	"Allow", "Access-Control-Allow-Origin", "Access-Control-Expose-Headers", "Cache-Control", "Content-Encoding", "Content-Length", "Content-Security-Policy",
	"Content-Type", "Cross-Origin-Opener-Policy", "Cross-Origin-Resource-Policy", "Date", "Etag", "Referrer-Policy",
	"Ratelimit", "Ratelimit-Policy", // with every answer to an API token with a rate
	"Strict-Transport-Security", "Vary", "X-Content-Type-Options", "X-Frame-Options", "X-Request-Id",
}

// transport are the statuses that need not occur: what middleware gives to slow
// senders and in trouble.
var transport = []int{http.StatusRequestTimeout, http.StatusInternalServerError, http.StatusServiceUnavailable}

// sightings are what answers had, by status: headers, error codes, media types.
type sightings map[int]map[sight]bool

type sight struct{ what, name string }

func (s *sightings) add(a outside.Answer) {
	if *s == nil {
		*s = sightings{}
	}
	if (*s)[a.Status] == nil {
		(*s)[a.Status] = map[sight]bool{}
	}
	for name := range a.Header {
		(*s)[a.Status][sight{"header", name}] = true
	}
	(*s)[a.Status][sight{"media type", a.MediaType()}] = true
	(*s)[a.Status][sight{"media type", anyMedia}] = true
	(*s)[a.Status][sight{"error code", a.ErrorCode()}] = true
	if hasMore(a) {
		(*s)[a.Status][anotherPage] = true
	}
}

// anotherPage is seen when a list is longer than the answer; only then is there a Link.
var anotherPage = sight{"page", "another"}

func hasMore(a outside.Answer) bool { return bytes.Contains(a.Body, []byte(`"has_more":true`)) }

// unseen says what is documented and never occurred.
func (d *description) unseen(o *operation, seen sightings) []string {
	var wrong []string
	for _, status := range slices.Sorted(maps.Keys(o.doc.Responses)) {
		code, err := strconv.Atoi(status)
		if err != nil {
			wrong = append(wrong, fmt.Sprintf("%q documents nothing", status))
			continue
		}
		if seen[code] == nil {
			if !slices.Contains(transport, code) {
				wrong = append(wrong, fmt.Sprintf("the documented %d never occurs", code))
			}
			continue
		}
		for _, s := range o.doc.Responses[status].promises(code) {
			if s == (sight{"header", "Link"}) && !seen[code][anotherPage] && strings.HasPrefix(o.path, "/api/") && !strings.Contains(o.path, "/stats/") {
				continue
			}
			if !seen[code][s] {
				wrong = append(wrong, fmt.Sprintf("%d never has the documented %s %s", code, s.what, s.name))
			}
		}
	}
	return wrong
}

// anyMedia is documented where the bytes are of any type (RFC 9110, section 12.5.1).
const anyMedia = "*/*"

// promises are what answers with that status have at one time or another.
func (r response) promises(status int) []sight {
	var list []sight
	for name := range r.Headers {
		list = append(list, sight{"header", http.CanonicalHeaderKey(name)})
	}
	for mediaType, m := range r.Content {
		list = append(list, sight{"media type", mediaType})
		if status < http.StatusBadRequest {
			continue
		}
		for code := range m.examples() {
			list = append(list, sight{"error code", code})
		}
	}
	return list
}

// check says in what an answer differs from what is documented.
func (d *description) check(o *operation, a outside.Answer) []string {
	status := strconv.Itoa(a.Status)
	documented, ok := o.doc.Responses[status]
	if !ok {
		return []string{fmt.Sprintf("undocumented status %d: %.300s", a.Status, a.Body)}
	}
	pointer := d.resolve(o.pointer + "/responses/" + status)
	wrong := d.checkHeaders(pointer+"/headers/", documented, a.Header)
	if hasMore(a) != (a.Header.Get("Link") != "") && o.method == http.MethodGet && strings.HasPrefix(o.path, "/api/") && !strings.Contains(o.path, "/stats/") {
		wrong = append(wrong, fmt.Sprintf("Link is %q of %.300s", a.Header.Get("Link"), a.Body))
	}
	if len(a.Body) == 0 {
		if len(documented.Content) > 0 {
			wrong = append(wrong, "a body is documented, and there is none")
		}
		return in(a, wrong)
	}
	mediaType := a.MediaType()
	m, ok := documented.Content[mediaType]
	if !ok {
		m, ok = documented.Content[anyMedia]
	}
	if !ok {
		return in(a, append(wrong, fmt.Sprintf("the undocumented media type %q", mediaType)))
	}
	if mediaType == "application/json" {
		if err := d.accepts(pointer+"/content/"+escapePointer(mediaType)+"/schema", a.Body); err != nil {
			wrong = append(wrong, fmt.Sprintf("%v\n%.500s", err, a.Body))
		}
	}
	if code := a.ErrorCode(); a.Status >= 400 && m.examples()[code] == nil {
		wrong = append(wrong, fmt.Sprintf("the undocumented error code %q", code))
	}
	return in(a, wrong)
}

func (d *description) checkHeaders(pointer string, documented response, header http.Header) []string {
	var wrong []string
	known := map[string]bool{}
	for name := range documented.Headers {
		canonical := http.CanonicalHeaderKey(name)
		known[canonical] = true
		for _, value := range header[canonical] {
			// A number's text is its JSON.
			text := []byte(value)
			if _, err := strconv.ParseFloat(value, 64); err != nil {
				text = []byte(outside.JSON(value))
			}
			if err := d.accepts(d.resolve(pointer+escapePointer(name))+"/schema", text); err != nil {
				wrong = append(wrong, fmt.Sprintf("header %s: %v", name, err))
			}
		}
	}
	for name := range header {
		if !known[name] && !slices.Contains(everywhere, name) {
			wrong = append(wrong, "the undocumented header "+name)
		}
	}
	return wrong
}

// in says which answer it is that is wrong.
func in(a outside.Answer, wrong []string) []string {
	for i, what := range wrong {
		wrong[i] = fmt.Sprintf("status %d: %s", a.Status, what)
	}
	return wrong
}
