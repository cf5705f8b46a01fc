package api

import (
	"bufio"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humachi"
	"github.com/go-chi/chi/v5"

	"github.com/waypost/waypost/internal/apidoc"
	"github.com/waypost/waypost/internal/apidoc/export"
	"github.com/waypost/waypost/internal/blob"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/httpedge"
	"github.com/waypost/waypost/internal/upload"
)

var (
	errRange     = fault.New(fault.OutOfRange, "range_not_satisfiable", "The file has no bytes in that range.")
	errCondition = fault.New(fault.Precondition, "precondition_failed", "The file does not match If-Match or If-Unmodified-Since.")
)

const (
	// maxRanges is how many ranges of one request are answered; with more, the answer is
	// the whole file (RFC 9110, section 14.2), for each costs the storage a request.
	maxRanges = 16
	// sendAtOnce is how much a client must take within stall.
	sendAtOnce = 1 << 20
	// filePolicy lets a file that is opened as a page do nothing.
	filePolicy = "default-src 'none'; style-src 'unsafe-inline'; sandbox"
)

type contentInput struct {
	UploadInput
	Inline bool   `query:"inline" doc:"Show a raster image instead of saving it; no effect on other files."`
	Range  string `header:"Range" doc:"One or several ranges of bytes (RFC 9110, section 14.2)." example:"bytes=0-1023"`
}

type thumbnailInput struct{ UploadInput }

func (u uploads) registerContent(a huma.API) {
	huma.Register(a, exportedByID(access(huma.Operation{
		OperationID: "get-upload-content",
		Method:      http.MethodGet,
		Path:        "/api/uploads/{id}/content",
		Summary:     "Download a file",
		Description: "The bytes, as they were uploaded. Browsers save the file, unless it is a raster image and `inline` is true. Range and conditional requests are supported; HEAD returns the headers alone.",
		Responses:   fileResponses("The file's bytes.", true),
	}, signedIn().ofFiles().orLink(), upload.ErrNoUpload, upload.ErrLink, blob.ErrUnavailable, errRange, errCondition), "uploadId"), func(_ context.Context, in *contentInput) (*huma.StreamResponse, error) {
		return u.serve(func(ctx context.Context, r *http.Request, h http.Header) (upload.Content, error) {
			c, err := u.s.Open(ctx, in.ID, r.URL.Query().Get(linkParameter))
			if err != nil {
				return c, err
			}
			how := "attachment"
			if in.Inline && upload.IsRaster(c.ContentType) {
				how = "inline"
			}
			h.Set("Content-Disposition", disposition(how, c.Filename))
			h.Set("Content-Type", c.ContentType)
			h.Set("ETag", `"`+hex.EncodeToString(c.SHA256)+`"`)
			return c, nil
		}), nil
	})

	huma.Register(a, exported(access(huma.Operation{
		OperationID: "get-upload-thumbnail",
		Method:      http.MethodGet,
		Path:        "/api/uploads/{id}/thumbnail",
		Summary:     "Download an image's thumbnail",
		Description: "A copy of the image, at most 320 pixels wide and high, upright and without metadata. It is made shortly after the upload. 404 until then, and for files that are not " +
			"images, can't be decoded or have more than 50 megapixels.",
		Responses: fileResponses("The thumbnail, a JPEG or PNG.", false),
	}, signedIn().ofFiles(), upload.ErrNoUpload, blob.ErrUnavailable, errRange, errCondition), export.Variant{
		Parameters: map[string]string{"id": "{{uploadId}}"}, Status: []int{http.StatusOK, http.StatusNotFound},
	}), func(_ context.Context, in *thumbnailInput) (*huma.StreamResponse, error) {
		return u.serve(func(ctx context.Context, _ *http.Request, h http.Header) (upload.Content, error) {
			c, err := u.s.OpenThumbnail(ctx, in.ID)
			if err != nil {
				return c, err
			}
			h.Set("Content-Disposition", "inline")
			h.Set("Content-Type", c.ThumbnailType)
			h.Set("ETag", `"`+hex.EncodeToString(c.SHA256)+`-thumbnail"`)
			return c, nil
		}), nil
	})
}

// serve answers with what open opens; open also sets the headers that say what it is.
func (u uploads) serve(open func(context.Context, *http.Request, http.Header) (upload.Content, error)) *huma.StreamResponse {
	return &huma.StreamResponse{Body: func(hctx huma.Context) {
		r, w := humachi.Unwrap(hctx)
		ctx, cancel := httpedge.Untimed(hctx.Context())
		defer cancel()
		h := http.Header{}
		c, err := open(ctx, r, h)
		if err != nil {
			httpedge.WriteError(w, r, err)
			return
		}
		defer c.Close()
		plain := httpedge.Uncompressed(w)
		maps.Copy(plain.Header(), h)
		plain.Header().Set("Cache-Control", "private, no-cache")
		plain.Header().Set("Content-Security-Policy", filePolicy)
		sendFile(plain, r.WithContext(ctx), c)
	}}
}

// sendFile answers with the bytes that were asked for. Once bytes have left, nothing
// true can be said of a failure, so the connection is cut.
func sendFile(w http.ResponseWriter, r *http.Request, c upload.Content) {
	out := &fileWriter{ResponseWriter: w, r: r, control: http.NewResponseController(w), size: c.Size()}
	_ = out.control.SetReadDeadline(time.Time{}) // the server's, for the whole request
	_ = out.control.SetWriteDeadline(time.Now().Add(stall))
	if strings.Count(r.Header.Get("Range"), ",") >= maxRanges {
		r.Header.Del("Range")
	}
	http.ServeContent(out, r, "", c.CreatedAt, c.Object)
	if out.failed != nil {
		httpedge.Record(r.Context(), out.failed)
		panic(http.ErrAbortHandler)
	}
}

// fileWriter gives the client time for each piece instead of for the whole, puts the
// failures of http.ServeContent into the envelope, and notes when bytes are missing.
type fileWriter struct {
	http.ResponseWriter
	r       *http.Request
	control *http.ResponseController
	size    int64
	refused bool // the envelope was sent
	failed  error
}

// WriteHeader implements http.ResponseWriter.
func (w *fileWriter) WriteHeader(status int) {
	switch status {
	case http.StatusRequestedRangeNotSatisfiable:
		w.refused = true
		w.Header().Set("Content-Range", fmt.Sprintf("bytes */%d", w.size)) // RFC 9110, section 14.4
		httpedge.WriteError(w.ResponseWriter, w.r, errRange)
	case http.StatusPreconditionFailed:
		w.refused = true
		httpedge.WriteError(w.ResponseWriter, w.r, errCondition)
	default:
		w.ResponseWriter.WriteHeader(status)
	}
}

// Write implements io.Writer.
func (w *fileWriter) Write(p []byte) (int, error) {
	if w.refused {
		return len(p), nil // Go's own words
	}
	return w.ResponseWriter.Write(p)
}

// ReadFrom implements io.ReaderFrom, piece by piece, so that the system may send a
// file's bytes without a copy.
func (w *fileWriter) ReadFrom(src io.Reader) (int64, error) {
	limited, ok := src.(*io.LimitedReader)
	if !ok {
		limited = &io.LimitedReader{R: src, N: math.MaxInt64}
	}
	var total int64
	for limited.N > 0 {
		if err := w.control.SetWriteDeadline(time.Now().Add(stall)); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return total, err
		}
		piece := &io.LimitedReader{R: limited.R, N: min(limited.N, sendAtOnce)}
		n, err := io.Copy(w.ResponseWriter, piece)
		total += n
		limited.N -= n
		if err == nil && piece.N > 0 {
			if !ok {
				return total, nil
			}
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			w.failed = fmt.Errorf("after %d bytes: %w", total, err)
			return total, err
		}
	}
	return total, nil
}

// disposition says how a browser is to treat a file, and its name (RFC 6266): in ASCII
// for old ones, and in UTF-8 (RFC 8187).
func disposition(how, filename string) string {
	var plain, encoded strings.Builder
	for _, r := range filename {
		if r < ' ' || r > '~' || r == '"' || r == '\\' || r == '%' {
			r = '_'
		}
		plain.WriteRune(r)
	}
	const hexDigits = "0123456789ABCDEF"
	for _, b := range []byte(filename) {
		if b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || strings.IndexByte("!#$&+-.^_`|~", b) >= 0 {
			encoded.WriteByte(b)
			continue
		}
		encoded.Write([]byte{'%', hexDigits[b>>4], hexDigits[b&15]})
	}
	return how + `; filename="` + plain.String() + `"; filename*=UTF-8''` + encoded.String()
}

// fileResponses document what a file is answered with.
func fileResponses(what string, named bool) map[string]*huma.Response {
	text := func(description, example string) *huma.Header {
		return &huma.Header{Schema: &huma.Schema{Type: huma.TypeString, Description: description, Examples: []any{example}}}
	}
	headers := func(more map[string]*huma.Header) map[string]*huma.Header {
		all := map[string]*huma.Header{
			"ETag":          text("The SHA-256 of the bytes.", `"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"`),
			"Last-Modified": text("When the upload began.", "Fri, 02 Jan 2026 15:04:05 GMT"),
		}
		maps.Copy(all, more)
		return all
	}
	name := text("How a browser is to treat it, and its name.", `attachment; filename="engine.png"; filename*=UTF-8''engine.png`)
	ranges := text("That ranges can be asked for.", "bytes")
	content := map[string]*huma.MediaType{"*/*": {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}}
	return map[string]*huma.Response{
		"200": {Description: what, Content: content, Headers: headers(map[string]*huma.Header{"Accept-Ranges": ranges, "Content-Disposition": name})},
		"206": {Description: "The parts that were asked for; several as `multipart/byteranges`.", Content: content, Headers: headers(map[string]*huma.Header{
			"Accept-Ranges": ranges, "Content-Disposition": name, contentRangeHeader: text("Which part it is, if it is one.", "bytes 0-1023/48213"),
		})},
		"304": {Description: "The client has the bytes.", Headers: map[string]*huma.Header{"Content-Disposition": name}},
	}
}

// receiveStaged is where files go whose storage has no signed addresses of its own.
// Nobody makes such an address but presign-upload, so the description doesn't show it.
func (u uploads) receiveStaged(r chi.Router) {
	r.With(apidoc.Describe().Hidden().Middleware).Put("/api/uploads/{id}/content", func(w http.ResponseWriter, r *http.Request) {
		id, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
		if err != nil {
			httpedge.WriteError(w, r, upload.ErrLink.Because(err))
			return
		}
		t := transfer{r: r, w: w}
		ctx, end := t.begin(r.Context())
		defer end()
		body := bufio.NewReaderSize(t.body(errUploadCut), transferBuffer)
		if err := u.s.PutStaged(ctx, id, r.URL.Query().Get("ticket"), r.Header.Get("Content-Type"), r.ContentLength, body); err != nil {
			httpedge.WriteError(w, r, err)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
}

var errUploadCut = fault.New(fault.Malformed, "invalid_body", "The body ended before its announced length.")

const contentRangeHeader = "Content-Range"
