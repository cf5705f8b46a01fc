package blob_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waypost/waypost/internal/blob"
	"github.com/waypost/waypost/internal/blob/blobtest"
)

// calls are all methods that talk to a server. Listing is one request here.
var calls = map[string]func(ctx context.Context, s *blob.S3) error{
	"Put":   func(ctx context.Context, s *blob.S3) error { return put(ctx, s, 10) },
	"parts": func(ctx context.Context, s *blob.S3) error { return put(ctx, s, 6<<20) },
	"Open": func(ctx context.Context, s *blob.S3) error {
		_, err := s.Open(ctx, "u/ab/abc")
		return err
	},
	"Stat": func(ctx context.Context, s *blob.S3) error {
		_, err := s.Stat(ctx, "u/ab/abc")
		return err
	},
	"Move":   func(ctx context.Context, s *blob.S3) error { return s.Move(ctx, "u/ab/abc", "u/ab/abd") },
	"Delete": func(ctx context.Context, s *blob.S3) error { return s.Delete(ctx, "u/ab/abc") },
	"List": func(ctx context.Context, s *blob.S3) error {
		for _, err := range s.List(ctx, "") {
			return err
		}
		return nil
	},
	"SweepIncomplete": func(ctx context.Context, s *blob.S3) error {
		_, err := s.SweepIncomplete(ctx, time.Now())
		return err
	},
	"Check": func(ctx context.Context, s *blob.S3) error { return s.Check(ctx) },
}

func put(ctx context.Context, s *blob.S3, size int) error {
	n, err := s.Put(ctx, "u/ab/new", "text/plain", bytes.NewReader(make([]byte, size)))
	if err == nil && n != int64(size) {
		return fmt.Errorf("%d bytes were put", n)
	}
	return err
}

// failure is a way for a server to fail.
type failure struct {
	before   func(http.ResponseWriter, *http.Request) bool
	says     string // a HEAD tells none of it
	requests int    // at most, for a call of one request
	all      bool   // by all calls, not by Check alone
}

var failures = map[string]failure{
	"500":          {answer(500, "InternalError"), "500 InternalError", 3, true},
	"503":          {answer(503, "SlowDown"), "503 SlowDown", 3, false},
	"unknown key":  {answer(403, "InvalidAccessKeyId"), "WAYPOST_S3_ACCESS_KEY", 1, false},
	"wrong secret": {answer(403, "SignatureDoesNotMatch"), "WAYPOST_S3_SECRET_KEY", 1, true},
	"no right":     {answer(403, "AccessDenied"), "policy", 1, false},
	"wrong region": {answer(400, "AuthorizationHeaderMalformed"), "WAYPOST_S3_REGION", 1, false},
	"wrong clock":  {answer(403, "RequestTimeTooSkewed"), "clock", 1, false},
	"no bucket":    {answer(404, "NoSuchBucket"), `no bucket "files"`, 1, true},
	"broken off":   {cut, "broke off", 3, true},
	"no S3 at all": {func(w http.ResponseWriter, _ *http.Request) bool {
		http.Error(w, "<h1>"+fakeSecretKey, http.StatusBadGateway)
		return true
	}, "502", 3, false},
	"never answers": {func(_ http.ResponseWriter, r *http.Request) bool { time.Sleep(2 * impatience); return true }, "doesn't answer", 3, true},
}

func TestEachFailureOfAnS3ServerIsToldWithoutCredentials(t *testing.T) {
	t.Parallel()
	var all sync.WaitGroup // not parallel tests: these wait, and don't work
	for name, failure := range failures {
		for call, do := range calls {
			if failure.all || call == "Check" {
				all.Go(func() { fails(t, name+", "+call, failure, call, do) })
			}
		}
	}
	all.Wait()
}

func fails(t *testing.T, name string, failure failure, call string, do func(context.Context, *blob.S3) error) {
	f, s := fake(t, impatience)
	f.before = failure.before
	err := do(t.Context(), s)
	if err == nil || call != "Check" && !errors.Is(err, blob.ErrUnavailable) {
		t.Errorf("%s: %v, want ErrUnavailable", name, err)
		return
	}
	if text := fmt.Sprintf("%v %+v %#v", err, err, err); strings.Contains(text, fakeAccessKey) || strings.Contains(text, fakeSecretKey) || strings.Contains(err.Error(), "\n") {
		t.Errorf("%s: the error tells credentials or has lines: %s", name, text)
	}
	if told := call != "Open" && call != "Stat" && call != "Move"; told && !strings.Contains(err.Error(), failure.says) {
		t.Errorf("%s: %v\ndoes not say %q", name, err, failure.says)
	}
	// Besides the call's own request, what looks after it.
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.requests > 3*failure.requests {
		t.Errorf("%s: %d requests", name, f.requests)
	}
}

func answer(status int, code string) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, _ *http.Request) bool {
		s3Error(w, status, code)
		return true
	}
}

func TestAServerThatRecoversIsAskedAgain(t *testing.T) {
	t.Parallel()
	var both sync.WaitGroup
	for name, failure := range map[string]func(http.ResponseWriter, *http.Request) bool{"500": answer(500, "InternalError"), "cut": cut} {
		both.Go(func() {
			f, s := fake(t, patience)
			failures := 2
			f.before = func(w http.ResponseWriter, r *http.Request) bool {
				if failures == 0 {
					failures = 2
					return false
				}
				failures--
				return failure(w, r)
			}
			want := blobtest.Bytes(1, 6<<20)
			if n, err := s.Put(t.Context(), "u/ab/abc", "text/plain", bytes.NewReader(want)); err != nil || n != int64(len(want)) {
				t.Errorf("%s: Put = %d, %v", name, n, err)
			}
			f.mu.Lock()
			defer f.mu.Unlock()
			if !bytes.Equal(f.objects["u/ab/abc"].content, want) {
				t.Errorf("%s: other bytes were put", name)
			}
		})
	}
	both.Wait()
}

func TestAPutWhoseAnswerWasLostIsDone(t *testing.T) {
	t.Parallel()
	for _, size := range []int{10, 11 << 20} {
		f, s := fake(t, patience)
		f.after = func(w http.ResponseWriter, r *http.Request) bool {
			q := r.URL.Query()
			last := r.Method == http.MethodPut && !q.Has("uploadId") || r.Method == http.MethodPost && q.Has("uploadId")
			return last && cut(w, r)
		}
		want := blobtest.Bytes(1, size)
		blobtest.Must(t, s, "u/ab/abc", want)
		if got := blobtest.Read(t, s, "u/ab/abc"); !bytes.Equal(got, want) {
			t.Error("other bytes came out")
		}
	}
}

func TestAPutThatFailedIsNotTakenForAnEarlierOne(t *testing.T) {
	t.Parallel()
	for _, size := range []int{10, 11 << 20} {
		f, s := fake(t, patience)
		old := blobtest.Bytes(1, size)
		blobtest.Must(t, s, "u/ab/new", old)
		f.before = func(w http.ResponseWriter, r *http.Request) bool {
			q := r.URL.Query()
			return (r.Method == http.MethodPut && !q.Has("uploadId") || r.Method == http.MethodPost && q.Has("uploadId")) && cut(w, r)
		}
		if err := put(t.Context(), s, size); !errors.Is(err, blob.ErrUnavailable) {
			t.Errorf("Put = %v", err)
		}
		if got := blobtest.Read(t, s, "u/ab/new"); !bytes.Equal(got, old) {
			t.Error("other bytes came out")
		}
		f.mu.Lock()
		if len(f.parts) > 0 {
			t.Errorf("%d parts are left", len(f.parts))
		}
		f.mu.Unlock()
	}
}

func TestAReadThatEndsEarlyIsAnError(t *testing.T) {
	t.Parallel()
	for name, send := range map[string]func(w http.ResponseWriter, content []byte){
		"cut off": func(w http.ResponseWriter, content []byte) {
			w.Header().Set("Content-Length", fmt.Sprint(len(content)))
			_, _ = w.Write(content[:len(content)/2])
		},
		"chunks that end": func(w http.ResponseWriter, content []byte) {
			_, _ = w.Write(content[:len(content)/2])
			_ = http.NewResponseController(w).Flush()
		},
		"fewer bytes": func(w http.ResponseWriter, content []byte) { _, _ = w.Write(content[:len(content)/2]) },
		"more bytes":  func(w http.ResponseWriter, content []byte) { _, _ = w.Write(append(content, content...)) },
		"nothing": func(w http.ResponseWriter, content []byte) {
			w.Header().Set("Content-Length", fmt.Sprint(len(content)))
			_, _ = w.Write(content[:len(content)/2])
			_ = http.NewResponseController(w).Flush()
			time.Sleep(3 * impatience)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, s := fake(t, impatience)
			content := blobtest.Bytes(1, 200<<10)
			blobtest.Must(t, s, "u/ab/abc", content)
			f.before = func(w http.ResponseWriter, r *http.Request) bool {
				if r.Method != http.MethodGet {
					return false
				}
				w.Header().Set("Last-Modified", "Sun, 22 Nov 2026 11:00:00 GMT")
				send(w, content)
				return true
			}
			o, err := s.Open(t.Context(), "u/ab/abc")
			if err != nil {
				t.Fatal(err)
			}
			defer o.Close()
			got, err := io.ReadAll(o)
			if !errors.Is(err, blob.ErrUnavailable) || len(got) >= len(content) || !bytes.Equal(got, content[:len(got)]) {
				t.Errorf("reading = %d bytes, %v; want fewer than %d and ErrUnavailable", len(got), err, len(content))
			}
		})
	}
}

func TestAServerThatIgnoresRangesIsNotBelieved(t *testing.T) {
	t.Parallel()
	f, s := fake(t, patience)
	blobtest.Must(t, s, "u/ab/abc", blobtest.Bytes(1, 1000))
	f.before = func(_ http.ResponseWriter, r *http.Request) bool {
		r.Header.Del("Range")
		return false
	}
	o, err := s.Open(t.Context(), "u/ab/abc")
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	if _, err := o.Seek(500, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	if n, err := o.Read(make([]byte, 10)); n != 0 || !errors.Is(err, blob.ErrUnavailable) {
		t.Errorf("Read = %d, %v", n, err)
	}
}

func TestReadingCostsOneRequestPerSeek(t *testing.T) {
	t.Parallel()
	f, s := fake(t, patience)
	content := blobtest.Bytes(1, 1<<20)
	blobtest.Must(t, s, "u/ab/abc", content)
	gets := 0
	f.before = func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodGet {
			gets++
		}
		return false
	}
	o, err := s.Open(t.Context(), "u/ab/abc")
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	// As net/http does to learn the size.
	for _, seek := range []struct {
		offset int64
		whence int
	}{{0, io.SeekEnd}, {0, io.SeekStart}} {
		if _, err := o.Seek(seek.offset, seek.whence); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := io.Copy(io.Discard, o); n != int64(len(content)) || err != nil || gets != 1 {
		t.Errorf("io.Copy = %d, %v with %d requests", n, err, gets)
	}
	if _, err := o.Seek(1000, io.SeekStart); err != nil || gets != 1 {
		t.Errorf("a Seek cost %d requests, %v", gets-1, err)
	}
	if n, err := io.ReadFull(o, make([]byte, 500)); n != 500 || err != nil || gets != 2 {
		t.Errorf("a Seek and a Read: %d bytes, %v, %d requests", n, err, gets-1)
	}
}

// A slow server is no dead one: what counts is silence.
func TestASlowServerIsWaitedFor(t *testing.T) {
	t.Parallel()
	const slow = 2 * time.Second
	f, s := fake(t, slow)
	content := blobtest.Bytes(1, 100<<10)
	blobtest.Must(t, s, "u/ab/abc", content)
	f.before = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodGet {
			return false
		}
		w.Header().Set("Last-Modified", "Sun, 22 Nov 2026 11:00:00 GMT")
		w.Header().Set("Content-Length", fmt.Sprint(len(content)))
		for rest := content; len(rest) > 0; rest = rest[10<<10:] {
			_, _ = w.Write(rest[:10<<10])
			_ = http.NewResponseController(w).Flush()
			time.Sleep(slow / 8)
		}
		return true
	}
	if got := blobtest.Read(t, s, "u/ab/abc"); !bytes.Equal(got, content) {
		t.Error("other bytes came out")
	}
}

// A server that takes little at a time, but takes it, is waited for, too.
func TestASlowReceiverIsWaitedFor(t *testing.T) {
	t.Parallel()
	const slow = 2 * time.Second
	ours, theirs := net.Pipe()
	c := blob.Impatient(ours, slow)
	content := blobtest.Bytes(1, 640<<10)
	var all sync.WaitGroup
	all.Go(func() {
		defer c.Close()
		if n, err := c.Write(content); n != len(content) || err != nil {
			t.Errorf("Write = %d, %v", n, err)
		}
	})
	var got bytes.Buffer
	for {
		n, err := io.CopyN(&got, theirs, 64<<10)
		if n == 0 || err != nil {
			break
		}
		time.Sleep(slow / 8)
	}
	all.Wait()
	if !bytes.Equal(got.Bytes(), content) {
		t.Errorf("%d bytes arrived", got.Len())
	}
}

func TestAnS3StoreWithoutItsSettingsIsNotMade(t *testing.T) {
	t.Parallel()
	good := blob.S3Options{Endpoint: "https://s3.example.com", Bucket: "files", AccessKey: "a", SecretKey: "b"}
	for name, spoil := range map[string]func(*blob.S3Options){
		"no key":    func(o *blob.S3Options) { o.AccessKey = "" },
		"no secret": func(o *blob.S3Options) { o.SecretKey = "" },
		"no bucket": func(o *blob.S3Options) { o.Bucket = "" },
		"no scheme": func(o *blob.S3Options) { o.Endpoint = "s3.example.com" },
		"path":      func(o *blob.S3Options) { o.Endpoint = "https://s3.example.com/files" },
		"userinfo":  func(o *blob.S3Options) { o.Endpoint = "https://a:b@s3.example.com" },
	} {
		o := good
		spoil(&o)
		if _, err := blob.NewS3(o); err == nil {
			t.Errorf("%s: a store was made", name)
		}
	}
	if _, err := blob.NewS3(good); err != nil {
		t.Error(err)
	}
}
