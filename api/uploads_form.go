package api

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humachi"

	"github.com/waypost/waypost/internal/apidoc/export"
	"github.com/waypost/waypost/internal/blob"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/httpedge"
	"github.com/waypost/waypost/internal/upload"
)

// Limits of a transfer. There is none of its whole time here, for files may be large;
// upload.Service has one.
const (
	// stall is how long a client may take for stallBytes.
	stall      = 30 * time.Second
	stallBytes = 16 << 10
	// maxFrame is how many bytes a form may have before its file, and after it.
	maxFrame = 16 << 10
	// transferBuffer is how much is read at once.
	transferBuffer = 64 << 10
	// lingerTime and lingerBytes are how much is still read from a sender who was answered
	// before the end, for one whose connection is closed may never read the answer.
	lingerTime  = 2 * time.Second
	lingerBytes = 32 << 20
	// answerTime is what the client has to take an answer without a file.
	answerTime = 30 * time.Second
)

var (
	errNotForm  = fault.New(fault.UnsupportedMedia, fault.CodeUnsupportedMedia, "Send the file as multipart/form-data, with one part that is called file.")
	errForm     = fault.New(fault.Malformed, "invalid_multipart", "The body is not well-formed multipart/form-data.")
	errFormCut  = fault.New(fault.Malformed, "invalid_multipart", "The body ended before the form was complete.")
	errNoFile   = fault.Validation(map[string]string{"body.file": "Is required: a part of this name, with the file."})
	errMoreThan = fault.Validation(map[string]string{"body": "Must have one part, called file, and no other."})
)

// transfer is embedded in the input of operations that move files: it gives their
// handlers the connection. A method of an embedded field is called by Huma.
type transfer struct {
	r *http.Request
	w http.ResponseWriter
}

// Resolve implements huma.Resolver.
func (t *transfer) Resolve(ctx huma.Context) []error {
	t.r, t.w = humachi.Unwrap(ctx)
	return nil
}

// begin frees a request from the limits of time that others have, and returns a context
// that ends when the client goes away. The function that it returns gives the client
// time to take the answer.
func (t *transfer) begin(ctx context.Context) (context.Context, func()) {
	ctx, cancel := httpedge.Untimed(ctx)
	control := http.NewResponseController(t.w)
	// A writer without deadlines (a test's recorder) has no slow clients either.
	_ = control.SetReadDeadline(time.Time{})
	_ = control.SetWriteDeadline(time.Time{})
	return ctx, func() {
		cancel()
		_ = control.SetReadDeadline(time.Time{})
		_ = control.SetWriteDeadline(time.Now().Add(answerTime))
	}
}

// linger sends the answer of an operation that reads its body by itself, and reads on
// for a while if it came before the body's end.
func linger(ctx huma.Context, next func(huma.Context)) {
	if ctx.Operation().Metadata[streamedKey] == nil {
		next(ctx)
		return
	}
	r, w := humachi.Unwrap(ctx)
	w = httpedge.Uncompressed(w) // which would keep the answer until the end
	control := http.NewResponseController(w)
	_ = control.EnableFullDuplex() // else the server itself reads on, before it answers
	held := &heldAnswer{ResponseWriter: w, status: http.StatusOK}
	next(huma.WithContext(humachi.NewContext(ctx.Operation(), r, held), ctx.Context()))
	// With its length, so that it is whole for the client while the sender still sends.
	w.Header().Set("Content-Length", strconv.Itoa(held.body.Len()))
	w.WriteHeader(held.status)
	_, _ = w.Write(held.body.Bytes()) // the client is gone when this fails
	_ = control.Flush()
	_ = control.SetReadDeadline(time.Now().Add(lingerTime))
	_, _ = io.CopyN(io.Discard, r.Body, lingerBytes)
}

// steadyBody is a body whose sender must bring stallBytes in each stall, and else is cut
// off with errBodySlow.
type steadyBody struct {
	body    io.Reader
	control *http.ResponseController
	since   int // bytes since the deadline was renewed
	begun   bool
	cut     error // what a body is that ends too early
	failed  error
}

func (t *transfer) body(cut error) *steadyBody {
	return &steadyBody{body: t.r.Body, control: http.NewResponseController(t.w), cut: cut}
}

// Read implements io.Reader.
func (b *steadyBody) Read(p []byte) (int, error) {
	if b.failed != nil {
		return 0, b.failed
	}
	if !b.begun || b.since >= stallBytes {
		b.begun, b.since = true, 0
		_ = b.control.SetReadDeadline(time.Now().Add(stall))
	}
	n, err := b.body.Read(p)
	b.since += n
	switch {
	case err == nil:
		return n, nil
	case errors.Is(err, io.EOF):
		// The server reads on, to see whether the client goes away: how long the storage
		// takes is not the client's fault.
		_ = b.control.SetReadDeadline(time.Time{})
		return n, err
	case errors.Is(err, os.ErrDeadlineExceeded):
		b.failed = errBodySlow.Because(err)
	default:
		f, ok := b.cut.(*fault.Error)
		if b.failed = err; ok {
			b.failed = f.Because(err)
		}
	}
	return n, b.failed
}

// frame bounds what of a form is not the file.
type frame struct {
	r    io.Reader
	left int    // bytes that may still come; negative for any number
	head []byte // what came while they were counted
}

// Read implements io.Reader.
func (f *frame) Read(p []byte) (int, error) {
	if f.left < 0 {
		return f.r.Read(p)
	}
	if f.left == 0 {
		return 0, errForm
	}
	n, err := f.r.Read(p[:min(len(p), f.left)])
	f.left -= n
	f.head = append(f.head, p[:n]...)
	return n, err
}

// formFile is the one file of a form. Reading it to its end also reads the rest of the
// form, so that io.EOF means that all of it was as it should be.
type formFile struct {
	// Filename and ContentType are as sent; "" for none.
	Filename, ContentType string
	// Expected is the number of bytes that Content-Length leaves for the file, -1 without
	// one.
	Expected int64

	body  *steadyBody
	frame *frame
	form  *multipart.Reader
	part  *multipart.Part
	done  error // what comes after the file
}

// openForm reads a form up to its file, through buffer, which is its own until the file
// was read. It returns errNotForm, errForm, errFormCut, errBodySlow, or validation faults.
func (t *transfer) openForm(buffer *bufio.Reader) (*formFile, error) {
	mediaType, params, err := mime.ParseMediaType(t.r.Header.Get("Content-Type"))
	if err != nil || mediaType != "multipart/form-data" {
		return nil, errNotForm
	}
	boundary := params["boundary"]
	if boundary == "" || len(boundary) > 70 { // RFC 2046, section 5.1.1
		return nil, errForm
	}
	f := &formFile{body: t.body(errFormCut)}
	buffer.Reset(f.body)
	f.frame = &frame{r: buffer, left: maxFrame}
	f.form = multipart.NewReader(f.frame, boundary)
	if f.part, err = f.form.NextRawPart(); err != nil {
		return nil, f.explain(err, errNoFile)
	}
	disposition, params, err := mime.ParseMediaType(f.part.Header.Get("Content-Disposition"))
	switch {
	case err != nil || disposition != "form-data":
		return nil, errForm
	case params["name"] != "file":
		return nil, errNoFile
	}
	f.Filename, f.ContentType = params["filename"], f.part.Header.Get("Content-Type")
	f.Expected = expected(t.r.ContentLength, f.frame.head, boundary)
	f.frame.left, f.frame.head = -1, nil
	return f, nil
}

// expected is how many bytes of a body are left for the file of a form that begins with
// head, if it ends as most do: with its last boundary and a line break.
func expected(contentLength int64, head []byte, boundary string) int64 {
	if contentLength < 0 {
		return -1
	}
	if i := bytes.Index(head, []byte("\r\n\r\n")); i >= 0 {
		contentLength -= int64(i) + 4
	}
	return max(contentLength-int64(len("\r\n--"+boundary+"--\r\n")), 0)
}

// Read implements io.Reader.
func (f *formFile) Read(p []byte) (int, error) {
	if f.done != nil {
		return 0, f.done
	}
	n, err := f.part.Read(p)
	if err == nil {
		return n, nil
	}
	if f.done = err; errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		f.frame.left = maxFrame
		_, f.done = f.form.NextRawPart()
		switch {
		case f.done == nil:
			f.done = errMoreThan
			return n, f.done
		case errors.Is(f.done, io.EOF) && f.body.failed == nil:
			f.done = io.EOF
			return n, io.EOF
		}
	}
	f.done = f.explain(f.done, errForm)
	return n, f.done
}

// explain says what an error of the form's parser means; ended is what it means that
// there is no more part.
func (f *formFile) explain(err error, ended error) error {
	if f.body.failed != nil {
		return f.body.failed
	}
	if own, ok := errors.AsType[*fault.Error](err); ok {
		return own
	}
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errFormCut.Because(err)
	case errors.Is(err, io.EOF):
		return ended
	}
	return errForm.Because(err)
}

type createUploadInput struct{ transfer }

type createdUploadOutput struct {
	Location string `header:"Location" doc:"The path of the new file." example:"/api/uploads/7"`
	Body     single[Upload]
}

// formExample is a body as exports send it.
var formExample = map[string]any{"file": "Notes on the engine."}

func (u uploads) registerCreate(a huma.API) {
	body := &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"multipart/form-data": {
		Schema: &huma.Schema{
			Type: huma.TypeObject, Required: []string{"file"}, AdditionalProperties: false,
			Properties: map[string]*huma.Schema{"file": {Type: huma.TypeString, Format: "binary", Extensions: map[string]any{"contentMediaType": "application/octet-stream"}, Description: "The file, with its name."}},
		},
		Example: formExample,
	}}}
	huma.Register(a, exported(streamed(access(huma.Operation{
		OperationID: "create-upload",
		Method:      http.MethodPost,
		Path:        "/api/uploads",
		Summary:     "Upload a file",
		Description: "Send one file as the form part `file`. The answer comes once the file is stored durably. The type is detected from the content; for CSV, Markdown and JSON, which " +
			"look like plain text, the part's Content-Type counts. Quota is reserved first: as much as Content-Length says, or as much as the largest file if it is missing.",
		DefaultStatus: http.StatusCreated,
	}, signedIn().ofOneself(), upload.ErrTooLarge, upload.ErrType, upload.ErrQuota, blob.ErrUnavailable, errNotForm, errForm, errBodySlow, errNoFile), body),
		export.Variant{Capture: map[string]string{"uploadId": "/data/id"}}), u.create)
}

func (u uploads) create(ctx context.Context, in *createUploadInput) (*createdUploadOutput, error) {
	ctx, end := in.begin(ctx)
	defer end()
	buffer := u.buffers.Get().(*bufio.Reader)
	defer func() {
		buffer.Reset(nil)
		u.buffers.Put(buffer) // nobody reads the form by now: a store reads all that it takes before it answers
	}()
	form, err := in.openForm(buffer)
	if err != nil {
		return nil, err
	}
	f, err := u.s.Create(ctx, upload.File{
		Filename: form.Filename, ContentType: form.ContentType, Expected: form.Expected, Settle: settling(ctx, form.Filename, form.ContentType),
	}, form)
	if err != nil {
		return nil, err
	}
	return &createdUploadOutput{Location: uploadPath(f), Body: single[Upload]{Data: u.show(f), Message: "File stored."}}, nil
}
