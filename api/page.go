package api

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/waypost/waypost/db/page"
	"github.com/waypost/waypost/internal/fault"
)

// Page is embedded in the input of every list. It is exported because Huma passes
// over embedded fields that are not.
type Page struct {
	Limit  int    `query:"limit" minimum:"1" maximum:"100" default:"20" doc:"Maximum number of rows."`
	Cursor string `query:"cursor" doc:"meta.next_cursor of the previous page."`
	Total  bool   `query:"total" doc:"Also return the total number of rows."`
}

// listMeta describes one page of a list.
type listMeta struct {
	Limit      int    `json:"limit" minimum:"1" example:"20" doc:"The most rows that the page may have."`
	HasMore    bool   `json:"has_more" example:"false" doc:"Whether another page follows."`
	NextCursor string `json:"next_cursor" example:"" doc:"Pass this as cursor for the next page. Empty on the last page."`
	Total      *int64 `json:"total,omitempty" doc:"The number of all matching rows; only with total=true."`
}

// list is the envelope of many.
type list[T any] struct {
	Data []T      `json:"data" nullable:"false" doc:"The rows of this page."`
	Meta listMeta `json:"meta" doc:"How to get the next page."`
}

// single is the envelope of one.
type single[T any] struct {
	Data    T      `json:"data" doc:"What the operation returns."`
	Message string `json:"message" doc:"What happened, as a sentence for people." example:"Done."`
}

// newList makes the envelope of a page from up to limit+1 rows: the extra one
// only says that there is more. position gives the cursor's content of a row.
func newList[R, T any](rows []R, limit int, total *int64, convert func(R) T, position func(R) any) list[T] {
	out := list[T]{Data: make([]T, 0, min(len(rows), limit)), Meta: listMeta{Limit: limit, Total: total}}
	for i, r := range rows {
		if i == limit {
			out.Meta.HasMore = true
			out.Meta.NextCursor = page.Encode(position(rows[i-1]))
			break
		}
		out.Data = append(out.Data, convert(r))
	}
	return out
}

// nextCursor is the cursor of the next page, "" for none.
func (l list[T]) nextCursor() string { return l.Meta.NextCursor }

// linkNext says in a header where the next page of a list is (RFC 8288).
func linkNext(baseURL string) huma.Transformer {
	return func(ctx huma.Context, _ string, v any) (any, error) {
		if l, ok := v.(interface{ nextCursor() string }); ok && l.nextCursor() != "" {
			ctx.SetHeader(linkHeader, nextPage(baseURL, ctx.URL(), "cursor", l.nextCursor()))
		}
		return v, nil
	}
}

// nextPage is the value of a Link header for the page that was asked for at, but with
// another value of one parameter.
func nextPage(baseURL string, at url.URL, parameter, value string) string {
	query := at.Query()
	query.Set(parameter, value)
	return "<" + baseURL + at.EscapedPath() + "?" + query.Encode() + `>; rel="next"`
}

// describeNext documents what linkNext sends.
func describeNext(_ *huma.OpenAPI, op *huma.Operation) {
	paged := slices.ContainsFunc(op.Parameters, func(p *huma.Param) bool { return p.In == "query" && p.Name == "cursor" })
	if found := op.Responses[strconv.Itoa(http.StatusOK)]; paged && found != nil {
		if found.Headers == nil {
			found.Headers = map[string]*huma.Header{}
		}
		found.Headers[linkHeader] = headerReference(linkHeader)
	}
}

// newWhole makes the envelope of a list that is always one page. Its limit is the
// number of rows, but within the bounds of any limit.
func newWhole[R, T any](rows []R, convert func(R) T) list[T] {
	return newList(rows, max(len(rows), 1), nil, convert, func(R) any { return nil })
}

// decodeCursor reads a cursor into position; an empty cursor leaves it as it is.
// A cursor that this service did not make is a 422.
func decodeCursor(cursor string, position any) error {
	if !page.Decode(cursor, position) {
		return fault.Validation(map[string]string{"query.cursor": "This is not a cursor of this list. Leave it out to start with the newest."})
	}
	return nil
}
