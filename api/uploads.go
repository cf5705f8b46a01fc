package api

import (
	"bufio"
	"context"
	"encoding/hex"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/waypost/waypost/internal/apidoc/export"
	"github.com/waypost/waypost/internal/apidoc/model"
	"github.com/waypost/waypost/internal/blob"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/upload"
)

// UploadService keeps files. What it returns is said at the methods of
// *upload.Service.
type UploadService interface {
	List(ctx context.Context, f upload.Filter) ([]upload.Upload, *int64, error)
	Create(ctx context.Context, f upload.File, r io.Reader) (upload.Upload, error)
	Find(ctx context.Context, id int64) (upload.Upload, error)
	Update(ctx context.Context, id int64, c upload.Change) (upload.Upload, error)
	Delete(ctx context.Context, id int64) error
	Open(ctx context.Context, id int64, link string) (upload.Content, error)
	OpenThumbnail(ctx context.Context, id int64) (upload.Content, error)
	MakeLink(ctx context.Context, id int64, seconds int64) (upload.Link, error)
	Presign(ctx context.Context, a upload.Announced) (upload.Presigned, error)
	PutStaged(ctx context.Context, id int64, ticket, contentType string, size int64, r io.Reader) error
	Complete(ctx context.Context, id int64) (upload.Upload, error)
}

// linkParameter is the query parameter of a signed link.
const linkParameter = "link"

// Uploads are the operations on files of the service at baseURL.
func Uploads(s UploadService, baseURL string) Resource {
	u := uploads{s: s, show: toUpload(baseURL), buffers: &sync.Pool{New: func() any { return bufio.NewReaderSize(nil, transferBuffer) }}}
	return Resource{
		Tag: "Uploads", Area: "Content",
		Description: "Files of signed-in people: images, documents, texts. The type is detected from the content; anything a browser could run is refused.",
		Models:      []any{Upload{}}, Aliases: []string{"/uploads"},
		Schemes: map[string]*huma.SecurityScheme{schemeFileLink: {
			Type: "apiKey", In: "query", Name: linkParameter, Description: "A link from `POST /api/uploads/{id}/link` has it. It is good for one file, for reading, until it expires.",
		}},
		Register: func(a huma.API) {
			u.registerMany(a)
			u.registerOne(a)
			for _, method := range []string{http.MethodPut, http.MethodPatch} {
				u.registerUpdate(a, method)
			}
			u.registerSigned(a)
			u.registerContent(a)
		},
		Routes: u.receiveStaged,
	}
}

// uploads are the operations' dependencies.
type uploads struct {
	s       UploadService
	show    func(upload.Upload) Upload
	buffers *sync.Pool // *bufio.Reader of transferBuffer bytes
}

type listUploadsInput struct {
	Page
	Query       string `query:"q" maxLength:"255" doc:"Text to find in the names; case makes no difference." example:"engine"`
	ContentType string `query:"content_type" maxLength:"100" doc:"Only files of this media type; image/* for all images." example:"image/*"`
	OwnerID     int64  `query:"owner_id" minimum:"1" doc:"Owner of the files; you by default. Another account only for an ADMIN."`
	Sort        string `query:"sort" enum:"created_at,-created_at,size,-size,filename,-filename" default:"-created_at" doc:"Sort order; a leading minus reverses it."`
}

type listUploadsOutput struct {
	Body list[Upload]
}

// uploadCursor is bound to the order that it was made for.
type uploadCursor struct {
	Sort      string    `json:"s"`
	CreatedAt time.Time `json:"t"`
	Size      int64     `json:"b"`
	Filename  string    `json:"f"`
	ID        int64     `json:"i"`
}

func (in *listUploadsInput) filter() (upload.Filter, error) {
	f := upload.Filter{
		OwnerID: in.OwnerID, Query: in.Query, ContentType: in.ContentType, Sort: in.Sort, Limit: in.Limit + 1, Count: in.Total,
	}
	if in.Cursor == "" {
		return f, nil
	}
	var c uploadCursor
	if err := decodeCursor(in.Cursor, &c); err != nil {
		return f, err
	}
	if c.Sort != in.Sort || c.ID < 1 {
		return f, fault.Validation(map[string]string{"query.cursor": "This cursor belongs to another sort order. Leave it out to start over."})
	}
	f.After = &upload.Position{CreatedAt: c.CreatedAt, Size: c.Size, Filename: c.Filename, ID: c.ID}
	return f, nil
}

func (u uploads) registerMany(a huma.API) {
	huma.Register(a, access(huma.Operation{
		OperationID: "list-uploads",
		Method:      http.MethodGet,
		Path:        "/api/uploads",
		Summary:     "List files",
		Description: "Your files, newest first by default. An ADMIN may list another account's with `owner_id`; an API token then needs scope `admin` too.",
	}, signedIn().ofFileLists(), upload.ErrNotAdmin), func(ctx context.Context, in *listUploadsInput) (*listUploadsOutput, error) {
		f, err := in.filter()
		if err != nil {
			return nil, err
		}
		found, total, err := u.s.List(ctx, f)
		if err != nil {
			return nil, within("query", err)
		}
		return &listUploadsOutput{Body: newList(found, in.Limit, total, u.show, func(f upload.Upload) any {
			p := f.Position()
			return uploadCursor{Sort: in.Sort, CreatedAt: p.CreatedAt, Size: p.Size, Filename: p.Filename, ID: p.ID}
		})}, nil
	})
	u.registerCreate(a)
}

// UploadInput names a file.
type UploadInput struct {
	ID int64 `path:"id" minimum:"1" doc:"The file's id." example:"1"`
}

type uploadOutput struct {
	Body single[Upload]
}

func (u uploads) one(f upload.Upload, message string) *uploadOutput {
	return &uploadOutput{Body: single[Upload]{Data: u.show(f), Message: message}}
}

func (u uploads) registerOne(a huma.API) {
	huma.Register(a, exportedByID(access(huma.Operation{
		OperationID: "get-upload",
		Method:      http.MethodGet,
		Path:        "/api/uploads/{id}",
		Summary:     "Show a file",
		Description: "A file's metadata, for its owner or an ADMIN; others get 404.",
	}, signedIn().ofFiles(), upload.ErrNoUpload), "uploadId"), func(ctx context.Context, in *UploadInput) (*uploadOutput, error) {
		f, err := u.s.Find(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		return u.one(f, "File found."), nil
	})

	huma.Register(a, exportedByID(access(huma.Operation{
		OperationID:   "delete-upload",
		Method:        http.MethodDelete,
		Path:          "/api/uploads/{id}",
		Summary:       "Delete a file",
		Description:   "Delete a file. Links to it stop working, its space is free at once, and its bytes are removed shortly after.",
		DefaultStatus: http.StatusNoContent,
	}, signedIn().ofFiles(), upload.ErrNoUpload), "uploadId"), func(ctx context.Context, in *UploadInput) (*struct{}, error) {
		return nil, u.s.Delete(ctx, in.ID)
	})
}

type updateUploadInput struct {
	UploadInput
	Body model.Update[Upload]
}

// registerUpdate declares PUT and PATCH, which do the same.
func (u uploads) registerUpdate(a huma.API, method string) {
	id, summary := "put-upload", "Rename a file"
	if method == http.MethodPatch {
		id, summary = "update-upload", "Rename a file by PATCH"
	}
	huma.Register(a, exportedByID(access(huma.Operation{
		OperationID: id,
		Method:      method,
		Path:        "/api/uploads/{id}",
		Summary:     summary,
		Description: "Rename a file. Its bytes never change: upload a new file instead.",
	}, signedIn().ofFiles(), upload.ErrNoUpload), "uploadId"), func(ctx context.Context, in *updateUploadInput) (*uploadOutput, error) {
		var c upload.Change
		if in.Body.Has("filename") {
			c.Filename = new(in.Body.Value().Filename)
		}
		f, err := u.s.Update(ctx, in.ID, c)
		if err != nil {
			return nil, within("body", err)
		}
		return u.one(f, "File changed."), nil
	})
}

type linkInput struct {
	UploadInput
	Body struct {
		ExpiresIn int64 `json:"expires_in" minimum:"1" maximum:"86400" example:"3600" doc:"For how many seconds the link is good, up to a day."`
	}
}

type fileLink struct {
	URL       string    `json:"url" example:"https://api.example.com/api/uploads/1/content?link=1767366245.n4bQgYhMfWWaL-qgxVrQFQ.2jmj7l5rSw0yVb_vlWAYkK_YBwk" doc:"The address. Add &inline=true to show an image instead of saving it."`
	ExpiresAt time.Time `json:"expires_at" example:"2026-01-02T16:04:05Z" doc:"When the link stops working."`
}

type linkOutput struct {
	CacheControl string `header:"Cache-Control" doc:"The answer contains a secret, so it must not be stored." example:"no-store"`
	Body         single[fileLink]
}

type presignInput struct {
	Body struct {
		Filename    string `json:"filename" minLength:"1" maxLength:"255" example:"engine.txt" doc:"The file's name, without a path."`
		ContentType string `json:"content_type" minLength:"1" maxLength:"255" example:"text/plain" doc:"The media type. What is sent must have it."`
		Size        int64  `json:"size" minimum:"0" example:"17" doc:"The number of bytes. What is sent must have as many."`
		SHA256      string `json:"sha256,omitempty" pattern:"^[0-9a-fA-F]{64}$" example:"2ae09cf0a4ee9ec5ec8d0f8a2b3c1f3d5e7a6b4c8d9e0f1a2b3c4d5e6f708192" doc:"SHA-256 of the bytes in hexadecimal, if you know it. What is sent must have it."`
	}
}

type presigned struct {
	Upload    Upload            `json:"upload" doc:"The file, pending."`
	Method    string            `json:"method" example:"PUT" doc:"The HTTP method to send the bytes with."`
	URL       string            `json:"url" example:"https://api.example.com/api/uploads/1/content?ticket=1767366245..2jmj7l5rSw0yVb_vlWAYkK_YBwk" doc:"Where to send the bytes; no credentials are needed."`
	Headers   map[string]string `json:"headers" doc:"Headers to send with the bytes, exactly as they are here." example:"{\"Content-Type\":\"text/plain\",\"Content-Length\":\"17\"}"`
	ExpiresAt time.Time         `json:"expires_at" example:"2026-01-02T16:04:05Z" doc:"Until when the bytes may be sent."`
}

type presignOutput struct {
	Location     string `header:"Location" doc:"The path of the new file." example:"/api/uploads/7"`
	CacheControl string `header:"Cache-Control" doc:"The answer contains a secret, so it must not be stored." example:"no-store"`
	Body         single[presigned]
}

func (u uploads) registerSigned(a huma.API) {
	huma.Register(a, exportedByID(access(huma.Operation{
		OperationID:   "create-upload-link",
		Method:        http.MethodPost,
		Path:          "/api/uploads/{id}/link",
		Summary:       "Create a link to a file",
		Description:   "Create a URL that lets anybody who has it read the file, until it expires or the file is deleted. It can't be revoked in any other way. Creating it is recorded in the audit log.",
		DefaultStatus: http.StatusCreated,
	}, signedIn().ofFiles().forPeople(fileBytes), upload.ErrNoUpload), "uploadId"), func(ctx context.Context, in *linkInput) (*linkOutput, error) {
		l, err := u.s.MakeLink(ctx, in.ID, in.Body.ExpiresIn)
		if err != nil {
			return nil, within("body", err)
		}
		return &linkOutput{CacheControl: "no-store", Body: single[fileLink]{Data: fileLink{URL: l.URL, ExpiresAt: l.ExpiresAt}, Message: "Link made."}}, nil
	})

	huma.Register(a, exported(access(huma.Operation{
		OperationID: "presign-upload",
		Method:      http.MethodPost,
		Path:        "/api/uploads/presign",
		Summary:     "Presign an upload",
		Description: "Start an upload whose bytes go straight to the storage, or to this service if the storage has no signed URLs. Send them with the method, URL and headers of the " +
			"answer and without credentials, then call `POST /api/uploads/{id}/complete`. The URL is valid for an hour.",
		DefaultStatus: http.StatusCreated,
	}, signedIn().ofOneself().forPeople(fileBytes), upload.ErrTooLarge, upload.ErrType, upload.ErrQuota, blob.ErrUnavailable),
		export.Variant{Capture: map[string]string{"presignedId": "/data/upload/id"}}), func(ctx context.Context, in *presignInput) (*presignOutput, error) {
		sum, err := hex.DecodeString(in.Body.SHA256)
		if err != nil {
			return nil, err
		}
		if len(sum) == 0 {
			sum = nil
		}
		p, err := u.s.Presign(ctx, upload.Announced{Filename: in.Body.Filename, ContentType: in.Body.ContentType, Size: in.Body.Size, SHA256: sum})
		if err != nil {
			return nil, within("body", err)
		}
		return &presignOutput{
			Location: uploadPath(p.Upload), CacheControl: "no-store",
			Body: single[presigned]{Message: "Send the bytes, then complete the file.", Data: presigned{
				Upload: u.show(p.Upload), Method: p.Request.Method, URL: p.Request.URL, Headers: upload.Headers(p.Request), ExpiresAt: p.Request.ExpiresAt,
			}},
		}, nil
	})

	huma.Register(a, exported(access(huma.Operation{
		OperationID: "complete-upload",
		Method:      http.MethodPost,
		Path:        "/api/uploads/{id}/complete",
		Summary:     "Complete a presigned upload",
		Description: "Check the size, type and checksum of what was sent against what was announced, and make the file ready. A file that is ready already is returned as it is. After " +
			"`upload_incomplete` or `upload_mismatch`, send the file again while its URL is valid.",
	}, signedIn().ofFiles(), upload.ErrNoUpload, upload.ErrIncomplete, upload.ErrMismatch, blob.ErrUnavailable),
		export.Variant{Parameters: map[string]string{"id": "{{presignedId}}"}, Status: []int{http.StatusUnprocessableEntity}}), u.complete)
}

type completeInput struct {
	UploadInput
	transfer
}

// complete reads the whole file, so it may take longer than a request.
func (u uploads) complete(ctx context.Context, in *completeInput) (*uploadOutput, error) {
	ctx, end := in.begin(ctx)
	defer end()
	f, err := u.s.Complete(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	return u.one(f, "File complete."), nil
}

func uploadPath(f upload.Upload) string { return "/api/uploads/" + strconv.FormatInt(f.ID, 10) }
