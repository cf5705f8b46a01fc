package api

import (
	"encoding/hex"
	"fmt"
	"time"

	"github.com/waypost/waypost/internal/upload"
)

// Upload is a file as clients see it. Only its name can be chosen, and changed.
type Upload struct {
	ID           uint64    `json:"id" model:"primary" doc:"Assigned by the server." example:"1"`
	Filename     string    `json:"filename" model:"line,min=1,max=255" doc:"The name as sent, without a path and without characters that can't be seen." example:"engine.png"`
	ContentType  string    `json:"content_type" model:"readonly" doc:"The media type, found by looking at the content. Of a pending file, what its sender said." example:"image/png"`
	Size         int64     `json:"size" model:"readonly" doc:"Number of bytes. Of a pending file, what its sender said, or 0." example:"48213"`
	SHA256       string    `json:"sha256,omitempty" model:"readonly" doc:"SHA-256 of the bytes in hexadecimal. Of a pending file what its sender said, or absent." example:"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"`
	Status       string    `json:"status" model:"readonly,oneof=pending ready" doc:"A pending file has no bytes yet; it disappears by itself when they don't come." example:"ready"`
	Width        int       `json:"width,omitempty" model:"readonly" doc:"An image's width in pixels, as stored; absent where there is none." example:"1024"`
	Height       int       `json:"height,omitempty" model:"readonly" doc:"An image's height in pixels, as stored; absent where there is none." example:"768"`
	URL          string    `json:"url" model:"readonly" doc:"Where the bytes are; needs a bearer token. POST .../link makes an address that needs none." example:"https://api.example.com/api/uploads/1/content"`
	ThumbnailURL string    `json:"thumbnail_url,omitempty" model:"readonly" doc:"Where an image's thumbnail is; absent until it is made." example:"https://api.example.com/api/uploads/1/thumbnail"`
	OwnerID      uint64    `json:"owner_id" model:"readonly" doc:"The owner's account." example:"1"`
	CreatedAt    time.Time `json:"created_at" model:"auto" doc:"When the upload began." example:"2026-01-02T15:04:05Z"`
	UpdatedAt    time.Time `json:"updated_at" model:"auto" doc:"When the file became ready, or its name last changed." example:"2026-01-02T15:04:05Z"`
}

// toUpload makes files of the service at baseURL.
func toUpload(baseURL string) func(upload.Upload) Upload {
	return func(u upload.Upload) Upload {
		at := fmt.Sprintf("%s/api/uploads/%d", baseURL, u.ID)
		out := Upload{
			ID: uint64(u.ID), Filename: u.Filename, ContentType: u.ContentType, Size: u.Size, SHA256: hex.EncodeToString(u.SHA256),
			Status: string(u.Status), Width: u.Width, Height: u.Height, URL: at + "/content", OwnerID: uint64(u.OwnerID),
			CreatedAt: u.CreatedAt, UpdatedAt: u.UpdatedAt,
		}
		if u.ThumbnailType != "" {
			out.ThumbnailURL = at + "/thumbnail"
		}
		return out
	}
}
