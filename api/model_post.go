package api

import (
	"time"

	"github.com/waypost/waypost/internal/content"
)

// Post is a short text with tags, as clients see it.
type Post struct {
	ID        uint64    `json:"id" model:"primary" doc:"Assigned by the server." example:"1"`
	Title     string    `json:"title" model:"required,line,nonblank,min=1,max=200" doc:"Headline." example:"Notes on the analytical engine"`
	Body      string    `json:"body" model:"required,min=1,max=100000" doc:"The text, as written." example:"It weaves algebraic patterns."`
	Tags      []string  `json:"tags" model:"max=10,dive,line,nonblank,min=1,max=50" doc:"Labels, in the author's order. A repeated label is kept once." example:"engine,notes"`
	AuthorID  uint64    `json:"author_id" model:"readonly" doc:"The author's account." example:"1"`
	CreatedAt time.Time `json:"created_at" model:"auto" doc:"When the post was written." example:"2026-01-02T15:04:05Z"`
	UpdatedAt time.Time `json:"updated_at" model:"auto" doc:"When the post last changed." example:"2026-01-02T15:04:05Z"`
}

func toPost(p content.Post) Post {
	return Post{
		ID: uint64(p.ID), Title: p.Title, Body: p.Body, Tags: p.Tags, AuthorID: uint64(p.AuthorID),
		CreatedAt: p.CreatedAt, UpdatedAt: p.UpdatedAt,
	}
}
