//go:build external

package blob_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waypost/waypost/internal/blob"
	"github.com/waypost/waypost/internal/blob/blobtest"
	"github.com/waypost/waypost/internal/blob/s3test"
)

func s3(t *testing.T, o blob.S3Options) *blob.S3 {
	t.Helper()
	s, err := blob.NewS3(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// served is a store in the only bucket of a server of its own.
func served(t *testing.T) (*s3test.Server, *blob.S3) {
	t.Helper()
	server := s3test.Start(t)
	server.Bucket("files")
	return server, s3(t, server.Options("files"))
}

// Not parallel: it measures memory.
func TestAnS3StoreKeepsThePromisesOfStores(t *testing.T) {
	server := s3test.Start(t)
	var buckets atomic.Int32
	blobtest.Conform(t, func(t *testing.T) blob.Store {
		bucket := fmt.Sprintf("conform-%d", buckets.Add(1))
		server.Bucket(bucket)
		return s3(t, server.Options(bucket))
	})
}

func TestAnS3ServerListsEveryPage(t *testing.T) {
	t.Parallel()
	_, s := served(t)
	const objects = 2100 // a page has 1,000
	var all sync.WaitGroup
	keys := make(chan string)
	for range 8 {
		all.Go(func() {
			for key := range keys {
				if _, err := s.Put(t.Context(), key, "text/plain", strings.NewReader(key)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i := range objects {
		keys <- blob.Key("u", fmt.Sprintf("%02x%04d", i%256, i))
	}
	close(keys)
	all.Wait()
	n, last := 0, ""
	for info, err := range s.List(t.Context(), "") {
		if err != nil || info.Key <= last {
			t.Fatalf("%s after %s, %v", info.Key, last, err)
		}
		n, last = n+1, info.Key
	}
	if n != objects {
		t.Errorf("%d objects, want %d", n, objects)
	}
}

func TestMoveCopiesALargeObjectInParts(t *testing.T) {
	t.Parallel()
	server, _ := served(t)
	o := server.Options("files")
	o.CopySize = 5 << 20
	s := s3(t, o)
	for _, size := range []int{5 << 20, 5<<20 + 1, 17 << 20} {
		content := blobtest.Bytes(1, size)
		blobtest.Must(t, s, "p/ab/abc", content)
		if err := s.Move(t.Context(), "p/ab/abc", "u/ab/abc"); err != nil {
			t.Fatal(err)
		}
		blobtest.Holds(t, s, map[string][]byte{"u/ab/abc": content})
	}
}

func TestAPresignedPutTakesWhatWasSignedAndNothingElse(t *testing.T) {
	t.Parallel()
	server, s := served(t)
	content := blobtest.Bytes(1, 17<<20)
	sum := sha256.Sum256(content)
	sign := func(key string, withSum bool) blob.Request {
		terms := blob.PutTerms{ContentType: "image/png", Size: int64(len(content)), Expires: time.Minute}
		if withSum {
			terms.SHA256 = sum[:]
		}
		r, err := s.PresignPut(t.Context(), key, terms)
		if err != nil {
			t.Fatal(err)
		}
		if left := time.Until(r.ExpiresAt); left > time.Minute || left < 0 || strings.Contains(r.URL, s3test.SecretKey) || !strings.HasPrefix(r.URL, "http://"+server.Address+"/") {
			t.Errorf("%+v", r)
		}
		return r
	}
	for name, spoil := range map[string]func(r *blob.Request, body *[]byte){
		"shorter":                func(_ *blob.Request, body *[]byte) { *body = (*body)[:1000] },
		"longer":                 func(_ *blob.Request, body *[]byte) { *body = append(bytes.Clone(*body), 1) },
		"another type":           func(r *blob.Request, _ *[]byte) { r.Header.Set("Content-Type", "text/html") },
		"no type":                func(r *blob.Request, _ *[]byte) { r.Header.Del("Content-Type") },
		"another key":            func(r *blob.Request, _ *[]byte) { r.URL = strings.Replace(r.URL, "/p/ab/abc", "/u/ab/abc", 1) },
		"another signature":      func(r *blob.Request, _ *[]byte) { r.URL = r.URL[:len(r.URL)-4] + "0000" },
		"a longer validity":      func(r *blob.Request, _ *[]byte) { r.URL = strings.Replace(r.URL, "Expires=60", "Expires=6000", 1) },
		"another method":         func(r *blob.Request, _ *[]byte) { r.Method = http.MethodGet },
		"fewer signed headers":   func(r *blob.Request, _ *[]byte) { r.URL = strings.Replace(r.URL, "content-length%3B", "", 1) },
		"other bytes of the sum": func(_ *blob.Request, body *[]byte) { *body = blobtest.Bytes(2, len(*body)) },
		"another sum": func(r *blob.Request, _ *[]byte) {
			r.Header.Set("X-Amz-Checksum-Sha256", base64.StdEncoding.EncodeToString(make([]byte, 32)))
		},
	} {
		r, body := sign("p/ab/abc", true), content
		spoil(&r, &body)
		if status := send(t, r, body); status < 400 {
			t.Errorf("%s is answered with %d", name, status)
		}
	}
	blobtest.Holds(t, s, nil)
	for i, withSum := range []bool{true, false} {
		key := fmt.Sprintf("p/ab/abc%d", i)
		if status := send(t, sign(key, withSum), content); status != http.StatusOK {
			t.Errorf("what was signed is answered with %d", status)
		}
		if got := blobtest.Read(t, s, key); !bytes.Equal(got, content) {
			t.Error("other bytes came out")
		}
	}
}

func TestARangeOfAnObjectIsServed(t *testing.T) {
	t.Parallel()
	_, s := served(t)
	content := blobtest.Bytes(1, 17<<20)
	blobtest.Must(t, s, "u/ab/abc", content)
	o, err := s.Open(t.Context(), "u/ab/abc")
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	site := serve(t, o)
	request, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, site, nil)
	request.Header.Set("Range", "bytes=6000000-6000999")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if got, err := io.ReadAll(answer.Body); err != nil || answer.StatusCode != http.StatusPartialContent || !bytes.Equal(got, content[6000000:6001000]) {
		t.Errorf("a range: %d with %d bytes, %v", answer.StatusCode, len(got), err)
	}
}

// send sends a request as a client does that has body, and returns the status.
func send(t *testing.T, r blob.Request, body []byte) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), r.Method, r.URL, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header = r.Header
	request.ContentLength = int64(len(body)) // the header's value is ignored by net/http
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		if _, ok := errors.AsType[*url.Error](err); ok {
			return 499 // it stops reading what it doesn't want
		}
		t.Fatal(err)
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, answer.Body)
	return answer.StatusCode
}

func TestAServerKilledInTheMiddleOfAPutLeavesNothing(t *testing.T) {
	t.Parallel()
	server, s := served(t)
	kept := blobtest.Bytes(1, 6<<20)
	blobtest.Must(t, s, "u/ab/kept", kept)
	for _, after := range []int{1 << 20, 11 << 20} {
		n, err := s.Put(t.Context(), "u/ab/abc", "text/plain", io.MultiReader(
			&blobtest.Breaking{After: after, Then: func() error { server.Kill(); return io.EOF }}, bytes.NewReader(make([]byte, 11<<20))))
		if n != 0 || !errors.Is(err, blob.ErrUnavailable) {
			t.Errorf("Put = %d, %v; want ErrUnavailable", n, err)
		}
		if err := s.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "can't be reached") {
			t.Errorf("Check without a server = %v", err)
		}
		server.Restart()
		blobtest.Absent(t, s, "u/ab/abc")
		if n, err := s.SweepIncomplete(t.Context(), time.Now().Add(time.Hour)); err != nil || n != after/(10<<20) {
			t.Errorf("SweepIncomplete = %d, %v", n, err)
		}
		blobtest.Holds(t, s, map[string][]byte{"u/ab/kept": kept})
		if err := s.Check(t.Context()); err != nil {
			t.Errorf("Check after a restart = %v", err)
		}
	}
}

func TestAServerKilledInTheMiddleOfAReadIsAnError(t *testing.T) {
	t.Parallel()
	server, s := served(t)
	content := blobtest.Bytes(1, 64<<20)
	blobtest.Must(t, s, "u/ab/abc", content)
	o, err := s.Open(t.Context(), "u/ab/abc")
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	first := make([]byte, 1<<20)
	if _, err := io.ReadFull(o, first); err != nil {
		t.Fatal(err)
	}
	server.Kill()
	rest, err := io.ReadAll(o)
	if !errors.Is(err, blob.ErrUnavailable) || !bytes.HasPrefix(content, append(first, rest...)) {
		t.Errorf("reading = %d bytes, %v; want ErrUnavailable", len(rest), err)
	}
	if _, err := s.Open(t.Context(), "u/ab/abc"); !errors.Is(err, blob.ErrUnavailable) {
		t.Errorf("Open without a server = %v", err)
	}
	server.Restart()
	// The same object goes on where it was.
	again, err := io.ReadAll(o)
	if err != nil || !bytes.Equal(content, bytes.Join([][]byte{first, rest, again}, nil)) {
		t.Errorf("after a restart: %d bytes, %v", len(again), err)
	}
}

func TestCheckSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	server, s := served(t)
	if err := s.Check(t.Context()); err != nil {
		t.Errorf("a good store: %v", err)
	}
	blobtest.Holds(t, s, nil)
	for name, test := range map[string]struct {
		spoil func(*blob.S3Options)
		says  string
	}{
		"absent bucket": {func(o *blob.S3Options) { o.Bucket = "nothing" }, `no bucket "nothing"`},
		"unknown key":   {func(o *blob.S3Options) { o.AccessKey = "nobody" }, "WAYPOST_S3_ACCESS_KEY"},
		"wrong secret":  {func(o *blob.S3Options) { o.SecretKey = "4711-wrong" }, "WAYPOST_S3_SECRET_KEY"},
		"wrong region":  {func(o *blob.S3Options) { o.Region = "eu-nowhere-1" }, "WAYPOST_S3_REGION"},
		"nobody there":  {func(o *blob.S3Options) { o.Endpoint = "http://127.0.0.1:1" }, "can't be reached"},
		"https":         {func(o *blob.S3Options) { o.Endpoint = strings.Replace(o.Endpoint, "http:", "https:", 1) }, "HTTPS"},
	} {
		o := server.Options("files")
		test.spoil(&o)
		bad := s3(t, o)
		err := bad.Check(t.Context())
		if err == nil || !strings.Contains(err.Error(), test.says) || strings.Contains(err.Error(), o.SecretKey) {
			t.Errorf("%s: %v\ndoes not say %s", name, err, test.says)
		}
		t.Logf("%s: %v", name, err)
		// No other method takes this for an absent object.
		if _, err := bad.Open(t.Context(), "u/ab/abc"); !errors.Is(err, blob.ErrUnavailable) {
			t.Errorf("%s: Open = %v", name, err)
		}
		if _, err := bad.Put(t.Context(), "u/ab/abc", "text/plain", strings.NewReader("x")); !errors.Is(err, blob.ErrUnavailable) {
			t.Errorf("%s: Put = %v", name, err)
		}
		if err := bad.Delete(t.Context(), "u/ab/abc"); !errors.Is(err, blob.ErrUnavailable) {
			t.Errorf("%s: Delete = %v", name, err)
		}
	}
}

// What the local store wrote is, copied into a bucket, what the S3 store reads.
func TestADirectoryCanBeCopiedIntoABucket(t *testing.T) {
	t.Parallel()
	_, s := served(t)
	dir := t.TempDir()
	l := local(t, dir)
	want := map[string][]byte{"u/ab/abc": blobtest.Bytes(1, 100), "t/cd/cde": blobtest.Bytes(2, 6<<20)}
	for key, content := range want {
		blobtest.Must(t, l, key, content)
	}
	for info, err := range l.List(context.Background(), "") {
		if err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(dir + "/" + info.Key) // as aws s3 sync or rclone do
		if err != nil {
			t.Fatal(err)
		}
		blobtest.Must(t, s, info.Key, content)
	}
	blobtest.Holds(t, s, want)
}

// serve serves an object as net/http serves files, at the returned address.
func serve(t *testing.T, o blob.Object) string {
	t.Helper()
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "", o.ModifiedAt(), o)
	}))
	t.Cleanup(site.Close)
	return site.URL
}
