package api

import (
	"time"

	"github.com/waypost/waypost/internal/content"
)

// Blog is a long text that is published at some time, as clients see it.
type Blog struct {
	ID          uint64    `json:"id" model:"primary" doc:"Assigned by the server." example:"1"`
	Title       string    `json:"title" model:"required,line,nonblank,min=1,max=200" doc:"Headline." example:"Why the engine weaves"`
	Slug        string    `json:"slug" model:"min=1,max=200,unique" doc:"The blog's name in addresses: words of a to z and 0 to 9 with single hyphens between them, not digits alone. Made from the title if absent, with a number behind it if that is taken." example:"why-the-engine-weaves"`
	Excerpt     string    `json:"excerpt" model:"max=500" doc:"What lists show." example:"Patterns of algebra, and who saw them first."`
	Content     string    `json:"content" model:"required,min=1,max=500000" doc:"The text, as written." example:"It weaves algebraic patterns just as the loom weaves flowers and leaves."`
	Image       string    `json:"image" model:"max=2000" doc:"An https URL, or empty." example:"https://example.com/engine.webp"`
	Published   bool      `json:"published" model:"default=false" doc:"Everybody may read a published blog; a draft is for EDITOR and ADMIN." example:"true"`
	PublishedAt time.Time `json:"published_at,omitzero" model:"auto" doc:"When the blog was published for the first time; absent on drafts." example:"2026-01-02T15:04:05Z"`
	AuthorID    uint64    `json:"author_id" model:"readonly" doc:"The author's account." example:"1"`
	CreatedAt   time.Time `json:"created_at" model:"auto" doc:"When the blog was written." example:"2026-01-02T15:04:05Z"`
	UpdatedAt   time.Time `json:"updated_at" model:"auto" doc:"When the blog last changed." example:"2026-01-02T15:04:05Z"`
}

func toBlog(b content.Blog) Blog {
	out := Blog{
		ID: uint64(b.ID), Title: b.Title, Slug: b.Slug, Excerpt: b.Excerpt, Content: b.Content, Image: b.Image,
		Published: b.Published, AuthorID: uint64(b.AuthorID), CreatedAt: b.CreatedAt, UpdatedAt: b.UpdatedAt,
	}
	if b.PublishedAt != nil {
		out.PublishedAt = *b.PublishedAt
	}
	return out
}
