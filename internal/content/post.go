// Package content is what accounts write and publish.
package content

import (
	"fmt"
	"time"

	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/text"
)

// Bounds of a post's fields, in characters.
const (
	MaxTitle = 200
	MaxBody  = 100_000
	MaxTags  = 10
	MaxTag   = 50
)

// Post is a short text by an account.
type Post struct {
	ID        int64
	AuthorID  int64
	Title     string
	Body      string
	Tags      []string // in the author's order; never nil
	CreatedAt time.Time
	UpdatedAt time.Time
}

// NewPost is what CreatePost needs.
type NewPost struct {
	AuthorID int64
	Title    string
	Body     string
	Tags     []string
}

func (n NewPost) validate() error {
	details := map[string]string{}
	switch {
	case !text.Within(n.Title, 1, MaxTitle):
		details["title"] = fmt.Sprintf("Needs 1 to %d characters.", MaxTitle)
	case !text.IsLine(n.Title):
		details["title"] = text.LineRule
	}
	if !text.Within(n.Body, 1, MaxBody) {
		details["body"] = fmt.Sprintf("Needs 1 to %d characters.", MaxBody)
	}
	if len(n.Tags) > MaxTags {
		details["tags"] = fmt.Sprintf("Must have at most %d tags.", MaxTags)
	}
	for i, tag := range n.Tags {
		if !text.Within(tag, 1, MaxTag) {
			details[fmt.Sprintf("tags[%d]", i)] = fmt.Sprintf("Needs 1 to %d characters.", MaxTag)
		}
	}
	if len(details) > 0 {
		return fault.Validation(details)
	}
	return nil
}

func fromRow(r dbsqlc.Post) Post {
	return Post{
		ID: r.ID, AuthorID: r.AuthorID, Title: r.Title, Body: r.Body, Tags: r.Tags,
		CreatedAt: r.CreatedAt.UTC(), UpdatedAt: r.UpdatedAt.UTC(),
	}
}
