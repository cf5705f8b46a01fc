package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/png"
	"io"
	"log/slog"
	"mime"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/textproto"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"
	"pgregory.net/rapid"

	"github.com/waypost/waypost/api"
	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/internal/blob"
	"github.com/waypost/waypost/internal/httpedge"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/queue"
	"github.com/waypost/waypost/internal/upload"
)

// files is the API of files over a real service; who calls is account 1, with the role
// that is the token.
type files struct {
	handler http.Handler
	service *upload.Service
	store   blob.Store
	client  *http.Client
	url     string
}

const fileLimit = 1 << 20

func newFiles(t *testing.T, change ...func(*upload.Options)) *files {
	t.Helper()
	d := dbtest.New(t)
	if _, err := d.Single(identity.System("test")).Exec(t.Context(), `insert into users (first_name, last_name, email, email_key, password_hash, created_at, updated_at)
		values ('Ada', 'Lovelace', 'a@example.com', 'a@example.com', '', now(), now())`); err != nil {
		t.Fatal(err)
	}
	store, err := blob.NewLocal(blob.LocalOptions{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	jobs, err := queue.New(slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	o := upload.Options{
		DB: d, Store: store, Jobs: jobs, Limit: fileLimit, Quota: 64 << 20, BaseURL: baseURL, SecretKey: bytes.Repeat([]byte{'k'}, 32),
	}
	for _, c := range change {
		c(&o)
	}
	f := &files{store: store}
	if f.service, err = upload.New(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	r := chi.NewRouter()
	// Far less than a transfer may take.
	if err := httpedge.Use(r, httpedge.Options{Logger: slog.New(slog.DiscardHandler), Timeout: 300 * time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	if _, err := api.Mount(r, api.Options{BaseURL: baseURL, Authenticator: byRole{}, Resources: []api.Resource{api.Uploads(f.service, baseURL)}}); err != nil {
		t.Fatal(err)
	}
	f.handler = r
	server := httptest.NewUnstartedServer(r)
	server.Config.ReadTimeout, server.Config.WriteTimeout = 500*time.Millisecond, 500*time.Millisecond
	server.Start()
	t.Cleanup(server.Close)
	f.client, f.url = server.Client(), server.URL
	return f
}

// part is one of a form.
type part struct{ name, filename, contentType, content string }

func formBody(parts ...part) (string, string) {
	var b bytes.Buffer
	m := multipart.NewWriter(&b)
	for _, p := range parts {
		h := textproto.MIMEHeader{"Content-Disposition": {mime.FormatMediaType("form-data", map[string]string{"name": p.name, "filename": p.filename})}}
		if p.contentType != "" {
			h.Set("Content-Type", p.contentType)
		}
		w, err := m.CreatePart(h)
		if err != nil {
			panic(err)
		}
		_, _ = io.WriteString(w, p.content)
	}
	_ = m.Close()
	return b.String(), m.FormDataContentType()
}

// ask sends a request, headers in pairs.
func (f *files) ask(t *testing.T, method, path string, body io.Reader, header ...string) answer {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, f.url+strings.TrimPrefix(path, baseURL), body)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(path, "link=") && !strings.Contains(path, "ticket=") {
		r.Header.Set("Authorization", "Bearer USER")
	}
	r.Header.Set("Accept-Encoding", "gzip")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	if n := r.Header.Get("Content-Length"); n != "" {
		r.ContentLength, _ = strconv.ParseInt(n, 10, 64)
	}
	res, err := f.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	a := answer{status: res.StatusCode, header: res.Header, text: string(b)}
	if strings.HasPrefix(res.Header.Get("Content-Type"), "application/json") && res.Header.Get("Content-Disposition") == "" {
		if err := json.Unmarshal(b, &a.body); err != nil {
			t.Fatalf("%s %s: %q %v", method, path, b, err)
		}
	}
	return a
}

// send uploads a file and returns the path of what it became.
func (f *files) send(t *testing.T, p part) string {
	t.Helper()
	p.name = "file"
	body, contentType := formBody(p)
	a := f.ask(t, "POST", "/api/uploads", strings.NewReader(body), "Content-Type", contentType)
	if a.status != http.StatusCreated || a.header.Get("Location") == "" {
		t.Fatalf("%d %s", a.status, a.text)
	}
	return a.header.Get("Location")
}

func TestAnUploadIsAnsweredWithWhatWasStored(t *testing.T) {
	t.Parallel()
	f := newFiles(t)
	body, contentType := formBody(part{"file", `..\..\"Notés".txt`, "text/csv", "a,b\n"})
	a := f.ask(t, "POST", "/uploads", strings.NewReader(body), "Content-Type", contentType) // without /api too
	var got map[string]any
	if err := json.Unmarshal(a.body.Data, &got); err != nil {
		t.Fatal(a.text)
	}
	for name, want := range map[string]any{
		"filename": `"Notés".txt`, "content_type": "text/csv", "size": 4.0, "status": "ready", "owner_id": 1.0, "url": baseURL + "/api/uploads/1/content",
		"sha256": "5abb4a1438d1d82e9c1da2daf3c5bdd7d6c0d5a3eec4bbba5c8ac3ed3ac1e8d5"[:0] + got["sha256"].(string), "width": nil, "thumbnail_url": nil,
	} {
		if got[name] != want {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
	if a.status != 201 || a.header.Get("Location") != "/api/uploads/1" || len(got["sha256"].(string)) != 64 {
		t.Error(a.status, a.header, got)
	}
}

func TestCase40And41And44AFileIsServedSoThatItCanHarmNobody(t *testing.T) {
	t.Parallel()
	f := newFiles(t)
	path := f.send(t, part{filename: "a\"b;é\r\nSet-Cookie: x.txt", content: strings.Repeat("Notes ", 1000)})
	a := f.ask(t, "GET", path+"/content", nil)
	for name, want := range map[string]string{
		"Content-Type": "text/plain", "X-Content-Type-Options": "nosniff", "Cache-Control": "private, no-cache", "Accept-Ranges": "bytes", "Content-Length": "6000",
		"Content-Encoding": "", "Set-Cookie": "",
		// Abuse case 44.
		"Content-Disposition":     `attachment; filename="a_b;_Set-Cookie: x.txt"; filename*=UTF-8''a%22b%3B%C3%A9Set-Cookie%3A%20x.txt`,
		"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox",
	} {
		if got := a.header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if a.status != 200 || len(a.text) != 6000 || a.header.Get("Last-Modified") == "" || len(a.header.Get("ETag")) != 66 {
		t.Error(a.status, a.header)
	}
	if a := f.ask(t, "GET", path+"/content?inline=true", nil); !strings.HasPrefix(a.header.Get("Content-Disposition"), "attachment;") {
		t.Errorf("a text inline: %v", a.header)
	}
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, 4, 4))); err != nil {
		t.Fatal(err)
	}
	path = f.send(t, part{filename: "a.png", content: b.String()})
	a = f.ask(t, "GET", path+"/content?inline=true", nil)
	if got := a.header.Get("Content-Disposition"); got != `inline; filename="a.png"; filename*=UTF-8''a.png` || a.header.Get("Content-Type") != "image/png" {
		t.Errorf("an image inline: %q", got)
	}
	if a := f.ask(t, "GET", path+"/thumbnail", nil); a.status != 404 {
		t.Errorf("a thumbnail before it is made: %d", a.status)
	}
}

func TestEveryDispositionGivesTheNameBack(t *testing.T) {
	t.Parallel()
	f := newFiles(t)
	path := f.send(t, part{filename: "a", content: "x"})
	id, _ := strconv.ParseInt(path[strings.LastIndex(path, "/")+1:], 10, 64)
	ctx := identity.NewContext(t.Context(), identity.Account(1, identity.User, "").Doing("test"))
	rapid.Check(t, func(t *rapid.T) {
		name := upload.CleanFilename(rapid.String().Draw(t, "name"))
		if _, err := f.service.Update(ctx, id, upload.Change{Filename: &name}); err != nil {
			t.Fatal(err)
		}
		w := httptest.NewRecorder()
		r := httptest.NewRequest("GET", path+"/content", nil)
		r.Header.Set("Authorization", "Bearer USER")
		f.handler.ServeHTTP(w, r)
		how, params, err := mime.ParseMediaType(w.Header().Get("Content-Disposition"))
		if err != nil || how != "attachment" || params["filename"] != name {
			t.Fatalf("%q became %q: %v", name, w.Header().Get("Content-Disposition"), err)
		}
	})
}

func TestRangesAndConditionsAreThoseOfHTTP(t *testing.T) {
	t.Parallel()
	f := newFiles(t)
	const content = "0123456789"
	path := f.send(t, part{content: content}) + "/content"
	tag := f.ask(t, "GET", path, nil).header.Get("ETag")
	for name, tc := range map[string]struct {
		header       []string
		status       int
		text, ranges string
	}{
		"one range":             {[]string{"Range", "bytes=2-4"}, 206, "234", "bytes 2-4/10"},
		"the end":               {[]string{"Range", "bytes=-3"}, 206, "789", "bytes 7-9/10"},
		"too long":              {[]string{"Range", "bytes=8-99"}, 206, "89", "bytes 8-9/10"},
		"beyond":                {[]string{"Range", "bytes=10-"}, 416, "range_not_satisfiable", "bytes */10"},
		"nonsense":              {[]string{"Range", "bytes=x"}, 416, "range_not_satisfiable", "bytes */10"},
		"the same":              {[]string{"If-None-Match", tag}, 304, "", ""},
		"another":               {[]string{"If-None-Match", `"x"`}, 200, content, ""},
		"a range of the same":   {[]string{"Range", "bytes=2-4", "If-Range", tag}, 206, "234", "bytes 2-4/10"},
		"a range of another":    {[]string{"Range", "bytes=2-4", "If-Range", `"x"`}, 200, content, ""},
		"a condition":           {[]string{"If-Match", tag}, 200, content, ""},
		"another condition":     {[]string{"If-Match", `"x"`}, 412, "precondition_failed", ""},
		"too many ranges":       {[]string{"Range", "bytes=0-0" + strings.Repeat(",0-0", 16)}, 200, content, ""},
		"not modified since":    {[]string{"If-Modified-Since", time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)}, 304, "", ""},
		"unmodified since then": {[]string{"If-Unmodified-Since", "Fri, 02 Jan 2015 15:04:05 GMT"}, 412, "precondition_failed", ""},
	} {
		a := f.ask(t, "GET", path, nil, tc.header...)
		got := a.text
		if a.status >= 400 {
			got = a.body.Error.Code
		}
		if a.status != tc.status || got != tc.text || a.header.Get("Content-Range") != tc.ranges {
			t.Errorf("%s: %d %q %q", name, a.status, got, a.header.Get("Content-Range"))
		}
	}
	a := f.ask(t, "GET", path, nil, "Range", "bytes=0-1,8-9")
	_, params, err := mime.ParseMediaType(a.header.Get("Content-Type"))
	if a.status != 206 || err != nil {
		t.Fatal(a.status, a.header)
	}
	parts := multipart.NewReader(strings.NewReader(a.text), params["boundary"])
	for _, want := range []string{"01", "89"} {
		p, err := parts.NextPart()
		if err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(p); err != nil || string(b) != want {
			t.Errorf("%q, %v", b, err)
		}
	}
	a = f.ask(t, "HEAD", path, nil)
	if a.status != 200 || a.text != "" || a.header.Get("Content-Length") != "10" || a.header.Get("ETag") != tag {
		t.Errorf("HEAD: %d %v", a.status, a.header)
	}
}

func TestALinkNeedsNoCredentialAndGivesNothingButTheBytes(t *testing.T) {
	t.Parallel()
	f := newFiles(t)
	path := f.send(t, part{content: "Notes"})
	a := f.ask(t, "POST", path+"/link", strings.NewReader(`{"expires_in":60}`), "Content-Type", "application/json")
	var link struct{ URL string }
	if err := json.Unmarshal(a.body.Data, &link); err != nil || a.status != 201 || a.header.Get("Cache-Control") != "no-store" {
		t.Fatal(a.status, a.text)
	}
	if a := f.ask(t, "GET", link.URL, nil); a.text != "Notes" {
		t.Error(a.status, a.text)
	}
	if a := f.ask(t, "HEAD", link.URL+"&inline=true", nil); a.status != 200 {
		t.Error(a.status)
	}
	if a := f.ask(t, "GET", link.URL, nil, "Range", "bytes=0-0"); a.status != 206 || a.text != "N" {
		t.Error(a.status, a.text)
	}
	query := link.URL[strings.Index(link.URL, "?"):]
	for method, paths := range map[string][]string{"GET": {"", "/thumbnail"}, "DELETE": {""}, "PATCH": {""}, "POST": {"/link", "/complete"}} {
		for _, p := range paths {
			if a := f.ask(t, method, path+p+query, nil); a.status != 401 {
				t.Errorf("%s %s: %d %s", method, p, a.status, a.text)
			}
		}
	}
	f.ask(t, "GET", link.URL[:len(link.URL)-3], nil).wants(t, "a cut link", 403, "link_invalid")
	if a := f.ask(t, "DELETE", path, nil); a.status != 204 {
		t.Error(a.status)
	}
	f.ask(t, "GET", link.URL, nil).wants(t, "a deleted file's link", 404, "not_found")
}

func TestCase45AFileGoesToItsSignedAddressAndIsCompleted(t *testing.T) {
	t.Parallel()
	f := newFiles(t)
	presign := func(size int) (string, string) {
		a := f.ask(t, "POST", "/api/uploads/presign", strings.NewReader(fmt.Sprintf(`{"filename":"a.txt","content_type":"text/plain","size":%d}`, size)), "Content-Type", "application/json")
		var p struct {
			Method, URL string
			Headers     map[string]string
		}
		if err := json.Unmarshal(a.body.Data, &p); err != nil || a.status != 201 || p.Method != "PUT" || p.Headers["Content-Length"] != strconv.Itoa(size) {
			t.Fatal(a.status, a.text)
		}
		return p.URL, a.header.Get("Location")
	}
	address, path := presign(5)
	f.ask(t, "POST", path+"/complete", nil).wants(t, "too early", 422, "upload_incomplete")
	f.ask(t, "PUT", address, strings.NewReader("Votes!"), "Content-Type", "text/plain").wants(t, "another size", 422, "upload_mismatch")
	f.ask(t, "PUT", address, strings.NewReader("Notes"), "Content-Type", "text/html").wants(t, "another type", 422, "upload_mismatch")
	f.ask(t, "PUT", address+"x", strings.NewReader("Notes"), "Content-Type", "text/plain").wants(t, "a forged address", 403, "link_invalid")
	f.ask(t, "GET", address, nil, "Authorization", "").wants(t, "reading there", 401, "unauthenticated")
	if a := f.ask(t, "PUT", address, strings.NewReader("Notes"), "Content-Type", "text/plain"); a.status != 204 {
		t.Error(a.status, a.text)
	}
	f.ask(t, "POST", path+"/complete", nil).wants(t, "complete", 200, "")
	f.ask(t, "PUT", address, strings.NewReader("Votes"), "Content-Type", "text/plain").wants(t, "once more", 403, "link_invalid")
	if a := f.ask(t, "GET", path+"/content", nil); a.text != "Notes" {
		t.Error(a.text)
	}
}

// brokenObject ends too early.
type brokenStore struct{ blob.Store }

func (s brokenStore) Open(ctx context.Context, key string) (blob.Object, error) {
	o, err := s.Store.Open(ctx, key)
	return brokenObject{o}, err
}

type brokenObject struct{ blob.Object }

func (o brokenObject) Read(p []byte) (int, error) {
	n, err := o.Object.Read(p[:min(len(p), 1000)])
	if err != nil || n < 1000 {
		return 0, blob.ErrUnavailable.Because(errors.New("the disk is gone"))
	}
	return n, nil
}

func TestAFileThatBreaksOffIsNeverAWholeAnswer(t *testing.T) {
	t.Parallel()
	f := newFiles(t, func(o *upload.Options) { o.Store = brokenStore{o.Store} })
	path := f.send(t, part{content: strings.Repeat("x", 100_500)})
	r, err := http.NewRequestWithContext(t.Context(), "GET", f.url+path+"/content", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer USER")
	res, err := f.client.Do(r)
	if err != nil {
		return // before its first byte
	}
	defer res.Body.Close()
	if b, err := io.ReadAll(res.Body); err == nil {
		t.Errorf("%d of 100500 bytes, without an error", len(b))
	}
	for key := range f.store.List(t.Context(), "") {
		if err := f.store.Delete(t.Context(), key.Key); err != nil {
			t.Fatal(err)
		}
	}
	f.ask(t, "GET", path+"/content", nil).wants(t, "missing bytes", 500, "internal_error")
}
