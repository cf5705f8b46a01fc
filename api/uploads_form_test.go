package api_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"
	"pgregory.net/rapid"

	"github.com/waypost/waypost/api"
	"github.com/waypost/waypost/internal/blob"
	"github.com/waypost/waypost/internal/httpedge"
	"github.com/waypost/waypost/internal/upload"
)

func TestFormsThatAreNotOneFileAreRefusedAndNothingIsStored(t *testing.T) {
	t.Parallel()
	f := newFiles(t)
	note := part{"file", "a.txt", "text/plain", "Notes"}
	whole, contentType := formBody(note)
	two, twoType := formBody(note, note)
	other, otherType := formBody(part{"note", "", "", "x"}, note)
	after, afterType := formBody(note, part{"note", "", "", "x"})
	none, noneType := formBody()
	long := "--b\r\n" + strings.Repeat("X-Long: "+strings.Repeat("x", 100)+"\r\n", 1000) + "\r\n"
	for name, tc := range map[string]struct {
		body, contentType string
		status            int
		code              string
	}{
		"no form":               {"{}", "application/json", 415, "unsupported_media_type"},
		"no type":               {whole, "", 415, "unsupported_media_type"},
		"another kind of form":  {whole, strings.Replace(contentType, "form-data", "mixed", 1), 415, "unsupported_media_type"},
		"no boundary":           {whole, "multipart/form-data", 400, "invalid_multipart"},
		"another boundary":      {whole, "multipart/form-data; boundary=x", 422, "validation_failed"},
		"a long boundary":       {whole, "multipart/form-data; boundary=" + strings.Repeat("x", 71), 400, "invalid_multipart"},
		"nothing":               {"", contentType, 422, "validation_failed"},
		"no part":               {none, noneType, 422, "validation_failed"},
		"two files":             {two, twoType, 422, "validation_failed"},
		"another part":          {other, otherType, 422, "validation_failed"},
		"another part after it": {after, afterType, 422, "validation_failed"},
		"half of it":            {whole[:len(whole)-30], contentType, 400, "invalid_multipart"},
		"a long header":         {long, "multipart/form-data; boundary=b", 400, "invalid_multipart"},
		"a long preamble":       {strings.Repeat("x", 100_000), "multipart/form-data; boundary=b", 400, "invalid_multipart"},
		"no disposition":        {"--b\r\n\r\nx\r\n--b--\r\n", "multipart/form-data; boundary=b", 400, "invalid_multipart"},
		"a page":                {strings.Replace(whole, "Notes", "<html>", 1), contentType, 415, "unsupported_type"},
	} {
		header := []string{"Content-Type", tc.contentType}
		if tc.contentType == "" {
			header = nil
		}
		f.ask(t, "POST", "/api/uploads", strings.NewReader(tc.body), header...).wants(t, name, tc.status, tc.code)
	}
	if a := f.ask(t, "GET", "/api/uploads?total=true", nil); *a.body.Meta.Total != 0 {
		t.Error(a.text)
	}
}

// steady sends a form with size bytes in its file, as slowly as it is told.
type steady struct {
	left  int64
	sent  int64
	pause time.Duration
	tail  string
}

func (s *steady) Read(p []byte) (int, error) {
	time.Sleep(s.pause)
	if s.left <= 0 {
		n := copy(p, s.tail)
		if s.tail = s.tail[n:]; n == 0 {
			return 0, io.EOF
		}
		return n, nil
	}
	n := int(min(int64(len(p)), s.left))
	for i := range p[:n] {
		p[i] = 'x'
	}
	s.left -= int64(n)
	s.sent += int64(n)
	return n, nil
}

const formHead = "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.txt\"\r\nContent-Type: text/plain\r\n\r\n"

func streamed(size int64, pause time.Duration) (*steady, io.Reader) {
	s := &steady{left: size, pause: pause, tail: "\r\n--b--\r\n"}
	return s, io.MultiReader(strings.NewReader(formHead), s)
}

func TestASlowSenderIsNotCutWhileBytesCome(t *testing.T) {
	t.Parallel()
	f := newFiles(t)
	// The server gives requests 300 ms, and connections 500.
	_, body := streamed(1000_000, 30*time.Millisecond)
	a := f.ask(t, "POST", "/api/uploads", body, "Content-Type", "multipart/form-data; boundary=b")
	a.wants(t, "a slow sender", 201, "")
}

// deadlines is a writer that notes the deadlines of reading.
type deadlines struct {
	*httptest.ResponseRecorder
	set int
}

func (d *deadlines) SetReadDeadline(t time.Time) error {
	if !t.IsZero() {
		d.set++
	}
	return nil
}

func (*deadlines) SetWriteDeadline(time.Time) error { return nil }

func TestASenderWhoBringsTooLittleIsCut(t *testing.T) {
	t.Parallel()
	f := newFiles(t)
	stalled := func() io.Reader { return failing{os.ErrDeadlineExceeded} }
	r := httptest.NewRequestWithContext(t.Context(), "POST", "/api/uploads", io.MultiReader(strings.NewReader(formHead+strings.Repeat("x", 200_000)), stalled()))
	r.Header.Set("Authorization", "Bearer USER")
	r.Header.Set("Content-Type", "multipart/form-data; boundary=b")
	w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
	f.handler.ServeHTTP(w, r)
	if w.Code != http.StatusRequestTimeout || !strings.Contains(w.Body.String(), "request_timeout") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w.set < 2 || w.set > 1+200_000>>14 {
		t.Errorf("the deadline was set %d times", w.set)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// discarding keeps nothing, so that a disk doesn't limit a test.
type discarding struct{ blob.Store }

func (discarding) Put(_ context.Context, _, _ string, r io.Reader) (int64, error) {
	return io.Copy(io.Discard, r)
}

func TestCase43AnEndlessFileIsCutAtTheLimitWhateverItsLength(t *testing.T) {
	t.Parallel()
	f := newFiles(t)
	const huge = 5 << 30
	for name, length := range map[string]string{"absent": "", "true": strconv.Itoa(huge + len(formHead) + 9)} {
		s, body := streamed(huge, 0)
		header := []string{"Content-Type", "multipart/form-data; boundary=b"}
		if length != "" {
			header = append(header, "Content-Length", length, "Expect", "100-continue")
		}
		f.ask(t, "POST", "/api/uploads", body, header...).wants(t, name, 413, "file_too_large")
		if s.sent > 64<<20 { // what is in buffers on the way
			t.Errorf("%s: %d MiB were sent", name, s.sent>>20)
		}
	}
	if a := f.ask(t, "GET", "/api/uploads?total=true", nil); *a.body.Meta.Total != 0 {
		t.Error(a.text)
	}
}

// How much memory an upload takes doesn't depend on its size.
func TestCase43MemoryStaysFlatWhileAGibibyteComes(t *testing.T) {
	f := newFiles(t, func(o *upload.Options) {
		o.Store, o.Limit, o.Quota = discarding{o.Store}, 2<<30, 4<<30
	})
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	_, body := streamed(1<<30, 0)
	f.ask(t, "POST", "/api/uploads", body, "Content-Type", "multipart/form-data; boundary=b").wants(t, "a gibibyte", 201, "")
	runtime.ReadMemStats(&after)
	if took := after.Sys - before.Sys; after.Sys > before.Sys && took > 64<<20 {
		t.Errorf("%d MiB more are in use", took>>20)
	}
}

// FuzzForm sends any bytes as a form: they are a file, or a clear refusal.
func FuzzForm(fz *testing.F) {
	whole, contentType := formBody(part{"file", "a.txt", "text/plain", "Notes"})
	fz.Add(whole, contentType)
	fz.Add("--b\r\nContent-Disposition: form-data; name=file; filename*=UTF-8''%ff\r\n\r\nx\r\n--b--", "multipart/form-data; boundary=b")
	fz.Add("--b--", "multipart/form-data; boundary=b")
	var f *files
	fz.Fuzz(func(t *testing.T, body, contentType string) {
		if f == nil {
			f = &files{}
			r := chi.NewRouter()
			if err := httpedge.Use(r, httpedge.Options{Logger: slog.New(slog.DiscardHandler)}); err != nil {
				t.Fatal(err)
			}
			if _, err := api.Mount(r, api.Options{BaseURL: baseURL, Authenticator: byRole{}, Resources: []api.Resource{api.Uploads(drain{}, baseURL)}}); err != nil {
				t.Fatal(err)
			}
			f.handler = r
		}
		r := httptest.NewRequestWithContext(t.Context(), "POST", "/api/uploads", strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer USER")
		r.Header["Content-Type"] = []string{contentType}
		w := httptest.NewRecorder()
		f.handler.ServeHTTP(w, r)
		if w.Code >= 500 || w.Code < 201 {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	})
}

// drain takes every file.
type drain struct{ api.UploadService }

func (drain) Create(_ context.Context, f upload.File, r io.Reader) (upload.Upload, error) {
	n, err := io.Copy(io.Discard, r)
	return upload.Upload{ID: 1, Filename: upload.CleanFilename(f.Filename), Size: n}, err
}

// TestEveryFormGivesItsFileBack holds the reading of forms against the standard
// library's writing, whatever the file holds, and checks what is reserved for it.
func TestEveryFormGivesItsFileBack(t *testing.T) {
	t.Parallel()
	r := chi.NewRouter()
	var got []byte
	var said upload.File
	if err := httpedge.Use(r, httpedge.Options{Logger: slog.New(slog.DiscardHandler)}); err != nil {
		t.Fatal(err)
	}
	keep := keeping{create: func(f upload.File, b []byte) { said, got = f, b }}
	if _, err := api.Mount(r, api.Options{BaseURL: baseURL, Authenticator: byRole{}, Resources: []api.Resource{api.Uploads(keep, baseURL)}}); err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		content := rapid.OneOf(rapid.SliceOf(rapid.Byte()), rapid.SliceOfN(rapid.SampledFrom([]byte("\r\n-b")), 0, 200), rapid.SliceOfN(rapid.Byte(), 60_000, 140_000)).Draw(t, "content")
		body, contentType := formBody(part{"file", "a.txt", "text/plain", string(content)})
		req := httptest.NewRequest("POST", "/api/uploads", strings.NewReader(body))
		req.Header.Set("Authorization", "Bearer USER")
		req.Header.Set("Content-Type", contentType)
		w := httptest.NewRecorder()
		r.ServeHTTP(w, req)
		if w.Code != 201 || !bytes.Equal(got, content) || said.Expected != int64(len(content)) {
			t.Fatalf("%d %s: %d bytes of %d, %d were expected", w.Code, w.Body, len(got), len(content), said.Expected)
		}
	})
}

type keeping struct {
	api.UploadService
	create func(upload.File, []byte)
}

func (k keeping) Create(_ context.Context, f upload.File, r io.Reader) (upload.Upload, error) {
	b, err := io.ReadAll(r)
	k.create(f, b)
	return upload.Upload{ID: 1}, err
}
