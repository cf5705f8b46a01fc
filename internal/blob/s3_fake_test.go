package blob_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/waypost/waypost/internal/blob"
)

// fakeServer answers as S3 does, as far as stores ask, with one bucket. What goes
// wrong is up to before and after, which report whether they have dealt with the
// request. Integrity is tested against a real server.
type fakeServer struct {
	*httptest.Server
	mu       sync.Mutex
	objects  map[string]fakeObject
	parts    map[string][]byte // of the only multipart upload
	mark     string            // its
	requests int
	before   func(w http.ResponseWriter, r *http.Request) bool
	after    func(w http.ResponseWriter, r *http.Request) bool
}

type fakeObject struct {
	content []byte
	mark    string
}

const (
	fakeAccessKey = "AKIA-VISIBLE"
	fakeSecretKey = "4711-hidden-secret"
)

// fake is a server whose client bears it when nothing moves for that long.
func fake(t *testing.T, silence time.Duration) (*fakeServer, *blob.S3) {
	t.Helper()
	f := &fakeServer{objects: map[string]fakeObject{}, parts: map[string][]byte{}}
	f.Server = httptest.NewServer(f)
	t.Cleanup(func() {
		f.CloseClientConnections()
		f.Close()
	})
	s, err := blob.NewS3(blob.S3Options{
		Endpoint: f.URL, Bucket: "files", AccessKey: fakeAccessKey, SecretKey: fakeSecretKey, PathStyle: true, Silence: silence,
	})
	if err != nil {
		t.Fatal(err)
	}
	return f, s
}

const (
	patience   = time.Minute            // more than any test takes
	impatience = 300 * time.Millisecond // for tests in which nothing moves
)

func (f *fakeServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests++
	if f.before != nil && f.before(w, r) {
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // cut off
	}
	sum := sha256.Sum256(body)
	if want := r.Header.Get("X-Amz-Content-Sha256"); r.Method == http.MethodPut && want != hex.EncodeToString(sum[:]) {
		s3Error(w, http.StatusBadRequest, "XAmzContentSHA256Mismatch")
		return
	}
	answer := httptest.NewRecorder()
	f.serve(answer, r, body)
	if f.after != nil && f.after(w, r) {
		return
	}
	for name, values := range answer.Header() {
		w.Header()[name] = values
	}
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes())
}

func (f *fakeServer) serve(w http.ResponseWriter, r *http.Request, body []byte) {
	key, query := r.PathValue("key"), r.URL.Query()
	if len(r.URL.Path) > len("/files/") {
		key = r.URL.Path[len("/files/"):]
	}
	switch {
	case key == "" && r.Method == http.MethodHead:
	case key == "":
		w.Header().Set("Content-Type", "application/xml")
		fmt.Fprint(w, `<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>`)
	case r.Method == http.MethodPost && query.Has("uploads"):
		f.mark = r.Header.Get("X-Amz-Meta-Put")
		fmt.Fprint(w, `<InitiateMultipartUploadResult><UploadId>1</UploadId></InitiateMultipartUploadResult>`)
	case r.Method == http.MethodPut && query.Has("uploadId"):
		f.parts[fmt.Sprintf("%06s", query.Get("partNumber"))] = body
		w.Header().Set("ETag", `"part"`)
	case r.Method == http.MethodPost && query.Has("uploadId"):
		if len(f.parts) == 0 {
			s3Error(w, http.StatusNotFound, "NoSuchUpload")
			return
		}
		var whole []byte
		for i := range len(f.parts) {
			whole = append(whole, f.parts[fmt.Sprintf("%06d", i+1)]...)
		}
		f.objects[key] = fakeObject{whole, f.mark}
		clear(f.parts)
		fmt.Fprint(w, `<CompleteMultipartUploadResult><ETag>"whole"</ETag></CompleteMultipartUploadResult>`)
	case r.Method == http.MethodDelete && query.Has("uploadId"):
		clear(f.parts)
		w.WriteHeader(http.StatusNoContent)
	case r.Method == http.MethodPut:
		f.objects[key] = fakeObject{body, r.Header.Get("X-Amz-Meta-Put")}
		w.Header().Set("ETag", `"whole"`)
	case r.Method == http.MethodDelete:
		delete(f.objects, key)
		w.WriteHeader(http.StatusNoContent)
	default:
		f.get(w, r, key)
	}
}

func (f *fakeServer) get(w http.ResponseWriter, r *http.Request, key string) {
	o, ok := f.objects[key]
	if !ok {
		s3Error(w, http.StatusNotFound, "NoSuchKey")
		return
	}
	content, status := o.content, http.StatusOK
	var from int
	if n, _ := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &from); n == 1 {
		content, status = content[from:], http.StatusPartialContent
	}
	w.Header().Set("ETag", `"whole"`)
	w.Header().Set("Last-Modified", "Sun, 22 Nov 2026 11:00:00 GMT")
	w.Header().Set("X-Amz-Meta-Put", o.mark)
	w.Header().Set("Content-Length", fmt.Sprint(len(content)))
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(content)
	}
}

func s3Error(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	fmt.Fprintf(w, `<Error><Code>%s</Code><Message>The key %s and the secret %s
	are told.</Message></Error>`, code, fakeAccessKey, fakeSecretKey)
}

// cut breaks the connection.
func cut(w http.ResponseWriter, _ *http.Request) bool {
	c, _, err := http.NewResponseController(w).Hijack()
	if err == nil {
		_ = c.Close()
	}
	return true
}
