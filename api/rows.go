package api

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/waypost/waypost/db/page"
	"github.com/waypost/waypost/internal/apidoc/export"
	"github.com/waypost/waypost/internal/apidoc/model"
)

// rows are the operations on the rows of a table, which clients see as the model M. K is
// what names a row in a path: int64 or string.
type rows[M, R, K any] struct {
	// one and many are the row's name in operationIds, path where the rows are.
	one, many, path string
	// id describes the parameter that names a row, of which example is one.
	id      string
	example K
	convert func(R) M
	// key is what a new row's own path ends in; nil where createOK makes rows.
	key func(M) string
	// maxBody is the largest body in bytes; 0 for the usual.
	maxBody int64
}

// said is what an operation says of itself, and who may call it.
type said struct {
	summary, description string
	// message tells who called what happened.
	message string
	access  Access
	fails   []error
	// exports are the requests in exports; nil for one, which names the row that the
	// exported create made.
	exports []export.Variant
}

// rowInput names a row.
type rowInput[K any] struct {
	ID K `path:"id"`
}

type changeRowInput[M, K any] struct {
	ID   K `path:"id"`
	Body model.Update[M]
}

type createRowInput[M any] struct {
	Body model.Create[M]
}

// rowOutput is one row.
type rowOutput[M any] struct {
	Body single[M]
}

// createdRowOutput is a new row, and where it is.
type createdRowOutput[M any] struct {
	Location string `header:"Location"`
	Body     single[M]
}

// rowsOutput is a page of rows.
type rowsOutput[M any] struct {
	Body list[M]
}

// operation is one of the five, in the form that Huma wants.
func (t rows[M, R, K]) operation(method, id, below string, s said) huma.Operation {
	variable := t.one + "Id" // what exports keep a new row's id in
	switch {
	case s.exports != nil:
	case below != "":
		s.exports = []export.Variant{{Parameters: map[string]string{"id": "{{" + variable + "}}"}}}
	case method == http.MethodPost:
		s.exports = []export.Variant{{Capture: map[string]string{variable: "/data/id"}}}
	}
	op := access(huma.Operation{
		OperationID: id, Method: method, Path: t.path + below, Summary: s.summary, Description: s.description,
		MaxBodyBytes: t.maxBody, Metadata: map[string]any{rowKey: described{t.id, t.example, t.path}},
	}, s.access, s.fails...)
	if s.exports == nil {
		return op
	}
	return exported(op, s.exports...)
}

// listRows declares the GET of many. I is its parameters.
func listRows[I, M, R, K any](a huma.API, t rows[M, R, K], s said, find func(context.Context, *I) (page.Page[R], error)) {
	huma.Register(a, t.operation(http.MethodGet, "list-"+t.many, "", s), func(ctx context.Context, in *I) (*rowsOutput[M], error) {
		found, err := find(ctx, in)
		if err != nil {
			return nil, within("query", err)
		}
		out := &rowsOutput[M]{Body: list[M]{Data: make([]M, len(found.Rows)), Meta: listMeta{Limit: found.Limit, Total: found.Total}}}
		for i, r := range found.Rows {
			out.Body.Data[i] = t.convert(r)
		}
		if found.Next != nil {
			out.Body.Meta.HasMore, out.Body.Meta.NextCursor = true, page.Encode(found.Next)
		}
		return out, nil
	})
}

// create declares the POST, which answers 201 with a Location.
func (t rows[M, R, K]) create(a huma.API, s said, create func(context.Context, M) (R, error)) {
	op := t.operation(http.MethodPost, "create-"+t.one, "", s)
	op.DefaultStatus = http.StatusCreated
	huma.Register(a, op, func(ctx context.Context, in *createRowInput[M]) (*createdRowOutput[M], error) {
		made, err := t.made(ctx, in, create)
		if err != nil {
			return nil, err
		}
		return &createdRowOutput[M]{Location: t.path + "/" + t.key(made), Body: single[M]{Data: made, Message: s.message}}, nil
	})
}

// createOK is create with the status 200 and no Location.
func (t rows[M, R, K]) createOK(a huma.API, s said, create func(context.Context, M) (R, error)) {
	op := creates(t.operation(http.MethodPost, "create-"+t.one, "", s))
	op.DefaultStatus = http.StatusOK
	huma.Register(a, op, func(ctx context.Context, in *createRowInput[M]) (*rowOutput[M], error) {
		made, err := t.made(ctx, in, create)
		if err != nil {
			return nil, err
		}
		return &rowOutput[M]{Body: single[M]{Data: made, Message: s.message}}, nil
	})
}

func (t rows[M, R, K]) made(ctx context.Context, in *createRowInput[M], create func(context.Context, M) (R, error)) (M, error) {
	r, err := create(ctx, in.Body.Value())
	if err != nil {
		var none M
		return none, within("body", err)
	}
	return t.convert(r), nil
}

// get declares the GET of one.
func (t rows[M, R, K]) get(a huma.API, s said, find func(context.Context, K) (R, error)) {
	huma.Register(a, t.operation(http.MethodGet, "get-"+t.one, "/{id}", s), func(ctx context.Context, in *rowInput[K]) (*rowOutput[M], error) {
		r, err := find(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		return &rowOutput[M]{Body: single[M]{Data: t.convert(r), Message: s.message}}, nil
	})
}

// update declares PUT and PATCH, which do the same: absent fields keep their values.
func (t rows[M, R, K]) update(a huma.API, s said, update func(context.Context, K, *model.Update[M]) (R, error)) {
	for _, method := range []string{http.MethodPut, http.MethodPatch} {
		s, id := s, "put-"+t.one
		if method == http.MethodPatch {
			s.summary, id = s.summary+" in part", "update-"+t.one
		}
		huma.Register(a, t.operation(method, id, "/{id}", s), func(ctx context.Context, in *changeRowInput[M, K]) (*rowOutput[M], error) {
			r, err := update(ctx, in.ID, &in.Body)
			if err != nil {
				return nil, within("body", err)
			}
			return &rowOutput[M]{Body: single[M]{Data: t.convert(r), Message: s.message}}, nil
		})
	}
}

// remove declares DELETE, which answers 204.
func (t rows[M, R, K]) remove(a huma.API, s said, remove func(context.Context, K) error) {
	op := t.operation(http.MethodDelete, "delete-"+t.one, "/{id}", s)
	op.DefaultStatus = http.StatusNoContent
	huma.Register(a, op, func(ctx context.Context, in *rowInput[K]) (*struct{}, error) {
		return nil, remove(ctx, in.ID)
	})
}

// given is the value of a field that a body carries, and nil for one that it does not.
// value is the field of the body's Value.
func given[M, V any](body *model.Update[M], name string, value V) *V {
	if !body.Has(name) {
		return nil
	}
	return &value
}

// request is what a page's parameters ask for.
func (p Page) request(query, sort string) (page.Request, error) {
	r := page.Request{Query: query, Sort: sort, Limit: p.Limit, Count: p.Total}
	if p.Cursor == "" {
		return r, nil
	}
	r.After = new(page.Position)
	return r, decodeCursor(p.Cursor, r.After)
}

// rowKey holds in an operation's metadata what its types can't say.
const rowKey = "waypost.row"

type described struct {
	id       string
	example  any
	location string
}

// describeRow says what names a row, and where a new one is.
func describeRow(_ *huma.OpenAPI, op *huma.Operation) {
	d, ok := op.Metadata[rowKey].(described)
	if !ok {
		return
	}
	for _, p := range op.Parameters {
		if p.In != "path" || p.Name != "id" {
			continue
		}
		p.Description, p.Schema.Description, p.Schema.Examples = d.id, d.id, []any{d.example}
		if p.Schema.Type == huma.TypeInteger {
			p.Schema.Minimum = new(1.0)
			p.Schema.PrecomputeMessages()
		}
	}
	if made := op.Responses[strconv.Itoa(http.StatusCreated)]; made != nil {
		location := made.Headers["Location"].Schema
		location.Description, location.Examples = "The path of what was created.", []any{fmt.Sprintf("%s/%v", d.location, d.example)}
	}
}
