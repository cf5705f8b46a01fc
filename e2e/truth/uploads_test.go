package truth_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"image"
	"image/png"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waypost/waypost/e2e/outside"
)

// makeUpload uploads a file of the USER's.
func (w *world) makeUpload(t *testing.T, contentType, content string) map[string]string {
	t.Helper()
	return w.uploadAs(t, w.credentials[callerUser], contentType, content)
}

// uploadAs uploads a file of whose credentials they are.
func (w *world) uploadAs(t *testing.T, credentials []string, contentType, content string) map[string]string {
	t.Helper()
	body, header := outside.Form(contentType, content)
	var made struct{ Data struct{ ID json.Number } }
	a := outside.Exchange(t, browser, "POST", w.url+"/api/uploads", string(body), slices.Concat(header, credentials)...)
	if a.Status != http.StatusCreated {
		t.Fatalf("upload: %d %s", a.Status, a.Body)
	}
	a.Into(t, &made)
	return map[string]string{"id": made.Data.ID.String()}
}

// makeStaged sends a file of the USER's to a signed address; checksum is what was
// announced, "" for nothing.
func (w *world) makeStaged(t *testing.T, content, checksum string) map[string]string {
	t.Helper()
	return w.stageAs(t, w.credentials[callerUser], content, checksum)
}

// stageAs is makeStaged for a file of whose credentials they are.
func (w *world) stageAs(t *testing.T, credentials []string, content, checksum string) map[string]string {
	t.Helper()
	announced := map[string]any{"filename": "notes.txt", "content_type": "text/plain", "size": len(content)}
	if checksum != "" {
		announced["sha256"] = checksum
	}
	var made struct {
		Data struct {
			Upload  struct{ ID json.Number }
			Method  string
			URL     string
			Headers map[string]string
		}
	}
	w.must(t, "POST", "/api/uploads/presign", credentials, announced).Into(t, &made)
	if content != "" {
		a := outside.Exchange(t, browser, made.Data.Method, w.url+strings.TrimPrefix(made.Data.URL, "https://waypost.example"), content, "Content-Type", made.Data.Headers["Content-Type"])
		if a.Status != http.StatusNoContent {
			t.Fatalf("%s: %d %s", made.Data.URL, a.Status, a.Body)
		}
	}
	return map[string]string{"id": made.Data.Upload.ID.String()}
}

// makePicture uploads an image of the USER's, once, and waits for its thumbnail.
func (w *world) makePicture(t *testing.T) map[string]string {
	t.Helper()
	return w.pictureAs(t, callerUser, w.credentials[callerUser])
}

// pictureAs is makePicture for an image of somebody else's.
func (w *world) pictureAs(t *testing.T, person string, credentials []string) map[string]string {
	t.Helper()
	if w.pictures[person] == "" {
		var b bytes.Buffer
		if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, 8, 8))); err != nil {
			t.Fatal(err)
		}
		w.pictures[person] = w.uploadAs(t, credentials, "image/png", b.String())["id"]
	}
	deadline := time.After(outside.Patience)
	for {
		var shown struct {
			Data struct {
				ThumbnailURL string `json:"thumbnail_url"`
			}
		}
		w.must(t, "GET", "/api/uploads/"+w.pictures[person], credentials, nil).Into(t, &shown)
		if shown.Data.ThumbnailURL != "" {
			return map[string]string{"id": w.pictures[person]}
		}
		select {
		case <-deadline:
			t.Fatal("no thumbnail")
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func specialLists(t *testing.T, w *world, call func(request) outside.Answer) {
	owner := w.idOf(t, w.credentials[callerAdmin])["id"]
	for _, caller := range []string{callerUser, callerPlainToken, callerAdmin} {
		call(request{name: "an ADMIN's files", caller: caller, query: url.Values{"owner_id": {owner}}})
	}
	owner = w.idOf(t, w.credentials[callerUser])["id"]
	for _, caller := range []string{callerUser, callerPlainToken, callerAdmin} {
		call(request{name: "a USER's files", caller: caller, query: url.Values{"owner_id": {owner}}})
	}
}

func specialUploads(_ *testing.T, w *world, call func(request) outside.Answer) {
	send := func(name, at, part, contentType, content string) {
		r := request{name: name, caller: callerUser, at: at}
		r.body, r.header = outside.FormOf(part, "notes.txt", contentType, content)
		call(r)
	}
	send("too large", w.narrowURL, "file", "text/plain", strings.Repeat("x", 1025))
	send("beyond the quota", w.narrowURL, "file", "text/plain", strings.Repeat("x", 1024))
	send("a page", "", "file", "image/png", "<!DOCTYPE html><html><script>alert(1)</script></html>")
	send("another part", "", "note", "text/plain", "Notes")
}

func specialPresigns(_ *testing.T, w *world, call func(request) outside.Answer) {
	for name, body := range map[string]string{
		"too large":        `{"filename":"a.txt","content_type":"text/plain","size":1025}`,
		"beyond the quota": `{"filename":"a.txt","content_type":"text/plain","size":1024}`,
		"a page":           `{"filename":"a.html","content_type":"text/html","size":10}`,
		"a path":           `{"filename":"../a.txt","content_type":"text/plain","size":10}`,
	} {
		call(request{name: name, caller: callerUser, at: w.narrowURL, body: []byte(body), header: []string{"Content-Type", "application/json"}})
	}
}

func specialCompletes(t *testing.T, w *world, call func(request) outside.Answer) {
	another := sha256.Sum256([]byte("another"))
	call(request{name: "nothing sent", caller: callerUser, params: w.makeStaged(t, "", "")})
	call(request{name: "another checksum", caller: callerUser, params: w.makeStaged(t, "Notes", hex.EncodeToString(another[:]))})
	whole := w.makeStaged(t, "Notes", "")
	call(request{name: "once", caller: callerUser, params: whole})
	call(request{name: "twice", caller: callerUser, params: whole})
}

func specialContents(t *testing.T, w *world, call func(request) outside.Answer) {
	params := w.makePicture(t)
	made := map[string]string{}
	for name, header := range map[string][]string{
		"a range":                {"Range", "bytes=0-9"},
		"ranges":                 {"Range", "bytes=0-3,6-9"},
		"a range beyond the end": {"Range", "bytes=999999-"},
		"no range":               {"Range", "bytes=x"},
		"a condition":            {"If-Match", `"another"`},
	} {
		a := call(request{name: name, caller: callerUser, params: params, header: header})
		if tag := a.Header.Get("ETag"); tag != "" {
			made["tag"] = tag
		}
	}
	call(request{name: "the bytes that the client has", caller: callerUser, params: params, header: []string{"If-None-Match", made["tag"]}})
	var link struct{ Data struct{ URL string } }
	w.must(t, "POST", "/api/uploads/"+params["id"]+"/link", w.credentials[callerUser], map[string]int{"expires_in": 60}).Into(t, &link)
	u, err := url.Parse(link.Data.URL)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(u.Path, "/content") {
		t.Fatal(link.Data.URL)
	}
	query := u.Query()
	// A thumbnail has no link, so that it doesn't matter there what is called one.
	call(request{name: "by a link", caller: callerNobody, params: params, query: query})
	forged := maps.Clone(query)
	forged.Set("link", "1."+strings.Repeat("A", 22)+"."+strings.Repeat("A", 43))
	call(request{name: "by a forged link", caller: callerNobody, params: params, query: forged})
}
