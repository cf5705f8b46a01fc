package export

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

const (
	baseURLVariable = "baseUrl"
	tokenVariable   = "accessToken"
	// lastFolder holds what would spoil the requests before it.
	lastFolder            = "Removal and sign-out"
	lastFolderDescription = "Requests that take away what the others need. They come last, so that the whole collection can be run in order."
	untagged              = "Other"
	removalOrder          = 100
)

// methods in the order of a folder's requests for one path: a list is read, then
// something is made, then changed.
var methods = []string{"get", "post", "put", "patch", "delete", "head", "options", "trace"}

// plan is a collection in no tool's form. Its texts hold variables as {{name}}.
type plan struct {
	name, version, description string
	variables                  []setting
	bearer                     string // variable with the token that requests inherit; "" when there is none
	folders                    []folder
}

type setting struct{ name, value, description string }

type folder struct {
	key               string // for its id
	name, description string
	requests          []request
}

// located is an operation where the description has it.
type located struct {
	operation
	method, path string
	tag          string
}

// placed is a request with what its place depends on.
type placed struct {
	request
	tag, path string
}

func newPlan(raw []byte) (*plan, error) {
	d, err := readDescription(raw)
	if err != nil {
		return nil, err
	}
	if err := d.Hints.validate(); err != nil {
		return nil, err
	}
	requests, err := d.allRequests()
	if err != nil {
		return nil, err
	}
	p := &plan{name: cmp.Or(d.Info.Title, "API"), version: d.Info.Version, description: d.Info.Description}
	p.bearer = d.bearerVariable()
	from := len(requests)
	if i := slices.IndexFunc(requests, func(r placed) bool { return r.order > 0 }); i >= 0 {
		from = i
	}
	p.folders = d.byTag(requests[:from])
	if late := requests[from:]; len(late) > 0 {
		last := folder{key: "last", name: lastFolder, description: lastFolderDescription}
		for _, r := range late {
			last.requests = append(last.requests, r.request)
		}
		p.folders = append(p.folders, last)
	}
	p.declare(d)
	return p, nil
}

// allRequests are those of all operations, in their order.
func (d *description) allRequests() ([]placed, error) {
	operations, err := d.operations()
	if err != nil {
		return nil, err
	}
	var all []placed
	for _, o := range operations {
		requests, err := d.requests(o)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", o.OperationID, err)
		}
		for _, r := range requests {
			all = append(all, placed{request: r, tag: o.tag, path: o.path})
		}
	}
	slices.SortStableFunc(all, func(a, b placed) int {
		byPath := strings.Compare(a.path, b.path)
		if a.order > 0 {
			byPath = -byPath // what is inside goes before what holds it
		}
		return cmp.Or(cmp.Compare(a.order, b.order), byPath)
	})
	return all, nil
}

// operations are all of the description, by path and method.
func (d *description) operations() ([]located, error) {
	var all []located
	for _, path := range slices.Sorted(maps.Keys(d.Paths)) {
		item := d.Paths[path]
		var shared []parameter
		if raw := item["parameters"]; raw != nil {
			if err := json.Unmarshal(raw, &shared); err != nil {
				return nil, fmt.Errorf("parameters of %s: %w", path, err)
			}
		}
		for _, method := range methods {
			if item[method] == nil {
				continue
			}
			o := located{method: method, path: path}
			if err := json.Unmarshal(item[method], &o.operation); err != nil {
				return nil, fmt.Errorf("%s %s: %w", method, path, err)
			}
			o.Parameters = d.withShared(o.Parameters, shared)
			o.OperationID = cmp.Or(o.OperationID, method+" "+path)
			o.tag = untagged
			if len(o.Tags) > 0 {
				o.tag = o.Tags[0]
			}
			all = append(all, o)
		}
	}
	return all, nil
}

// withShared adds a path's parameters, which an operation's own override.
func (d *description) withShared(own, shared []parameter) []parameter {
	out := make([]parameter, 0, len(own)+len(shared))
	for _, p := range own {
		out = append(out, d.parameter(p))
	}
	for _, p := range shared {
		p = d.parameter(p)
		if !slices.ContainsFunc(out, func(o parameter) bool { return o.Name == p.Name && o.In == p.In }) {
			out = append(out, p)
		}
	}
	return out
}

// byTag makes a folder of each tag, that of the earliest request first, else in
// the order in which the description declares them.
func (d *description) byTag(requests []placed) []folder {
	first := map[string]int{} // tag to the order of its earliest request
	rank := map[string]int{}
	description := map[string]string{}
	for i, t := range d.Tags {
		rank[t.Name], description[t.Name] = i, t.Description
	}
	members := map[string][]request{}
	for _, r := range requests {
		if _, known := first[r.tag]; !known {
			first[r.tag] = r.order
		}
		if _, declared := rank[r.tag]; !declared {
			rank[r.tag] = len(d.Tags)
		}
		members[r.tag] = append(members[r.tag], r.request)
	}
	tags := slices.SortedFunc(maps.Keys(members), func(a, b string) int {
		return cmp.Or(cmp.Compare(first[a], first[b]), cmp.Compare(rank[a], rank[b]), strings.Compare(a, b))
	})
	folders := make([]folder, len(tags))
	for i, tag := range tags {
		folders[i] = folder{key: tag, name: tag, description: description[tag], requests: members[tag]}
	}
	return folders
}

// declare lists the variables: the address and the token, the declared ones, and
// whatever requests set or refer to besides.
func (p *plan) declare(d *description) {
	server := ""
	if len(d.Servers) > 0 {
		server = strings.TrimRight(d.Servers[0].URL, "/")
	}
	p.variables = []setting{{baseURLVariable, server, "Where the service is, without a trailing slash."}}
	add := func(name, description string) {
		if !slices.ContainsFunc(p.variables, func(s setting) bool { return s.name == name }) {
			p.variables = append(p.variables, setting{name: name, description: description})
		}
	}
	if p.bearer != "" {
		add(p.bearer, "Bearer token of the requests that need one; signing in sets it.")
	}
	for _, v := range d.Hints.Variables {
		add(v.Name, v.Description)
	}
	for r := range p.requests() {
		for _, name := range slices.Sorted(maps.Keys(r.capture)) {
			add(name, "Set by “"+r.name+"”.")
		}
		if r.totp != nil {
			add(r.totp.Code, "Computed before “"+r.name+"”.")
		}
	}
	for r := range p.requests() {
		for _, name := range r.variables() {
			add(name, "")
		}
	}
}

// requests yields all requests in their order.
func (p *plan) requests() func(yield func(*request) bool) {
	return func(yield func(*request) bool) {
		for _, f := range p.folders {
			for i := range f.requests {
				if !yield(&f.requests[i]) {
					return
				}
			}
		}
	}
}
