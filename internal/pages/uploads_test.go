package pages_test

import (
	"bytes"
	"fmt"
	"image"
	"image/png"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/upload"
)

// put sends a file of an account.
func (o *archive) put(t *testing.T, owner identity.Principal, name string, content []byte) upload.Upload {
	t.Helper()
	u, err := o.uploads.Create(identity.NewContext(t.Context(), owner), upload.File{Filename: name, ContentType: "text/plain", Expected: int64(len(content))}, bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// picture is a PNG that is larger than its thumbnail.
func picture(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewNRGBA(image.Rect(0, 0, 800, 400))); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// named are the names in the list, in its order.
func named(p page) []string {
	var list []string
	for _, m := range regexp.MustCompile(`<td class="wide"><a href="/admin/uploads/\d+">([^<]+)</a>`).FindAllStringSubmatch(p.body, -1) {
		list = append(list, m[1])
	}
	return list
}

func TestFilesAreListedFilteredAndSortedByTheAddress(t *testing.T) {
	t.Parallel()
	o := newArchive(t)
	eve := o.add(t, "eve@example.com", identity.User)
	o.put(t, o.root, "b.txt", []byte("1234"))
	o.put(t, eve, "c.txt", []byte("12"))
	o.put(t, eve, "a.png", picture(t))
	owner := fmt.Sprintf("owner=%d", eve.UserID)
	for query, want := range map[string][]string{
		"": {"a.png", "c.txt", "b.txt"}, "sort=created_at": {"b.txt", "c.txt", "a.png"}, "sort=filename": {"a.png", "b.txt", "c.txt"}, "sort=size": {"c.txt", "b.txt", "a.png"},
		owner: {"a.png", "c.txt"}, owner + "&sort=-filename": {"c.txt", "a.png"}, "type=image/*": {"a.png"}, "type=text/plain": {"c.txt", "b.txt"}, "status=pending": nil, "q=TXT": {"c.txt", "b.txt"},
		"owner=99999": nil,
	} {
		a := o.ask(t, "GET", "/uploads?"+query, nil)
		if a.status != 200 {
			t.Errorf("%s: %d", query, a.status)
		}
		if diff := cmp.Diff(want, named(a)); diff != "" {
			t.Errorf("%s: %s", query, diff)
		}
	}
	o.ask(t, "GET", "/uploads?"+owner, nil).says(t, "her files", "Ro Ot", "4.0 MiB")
	totals := o.ask(t, "GET", "/uploads/owners", nil)
	totals.says(t, "owners", fmt.Sprintf("/admin/uploads?owner=%d", eve.UserID), fmt.Sprintf("/admin/uploads?owner=%d", o.root.UserID))
	if strings.Index(totals.body, fmt.Sprintf("?owner=%d", eve.UserID)) > strings.Index(totals.body, fmt.Sprintf("?owner=%d", o.root.UserID)) {
		t.Error("the one with more comes later")
	}
}

func TestThePagesOfAListOfFilesHoldEachOnce(t *testing.T) {
	t.Parallel()
	o := newArchive(t)
	for i := range 30 {
		o.put(t, o.root, fmt.Sprintf("%02d.txt", i%20), []byte("1"))
	}
	for _, query := range []string{"", "sort=size", "sort=-size", "sort=filename", "sort=created_at", fmt.Sprintf("owner=%d", o.root.UserID)} {
		first := o.ask(t, "GET", "/uploads?"+query, nil)
		next := regexp.MustCompile(`href="/admin([^"]+)" rel="next"`).FindStringSubmatch(first.body)
		if next == nil {
			t.Fatalf("%s: no next page", query)
		}
		second := o.ask(t, "GET", strings.ReplaceAll(next[1], "&amp;", "&"), nil)
		seen := map[string]bool{}
		for _, m := range regexp.MustCompile(`<td class="wide"><a href="/admin/uploads/(\d+)"`).FindAllStringSubmatch(first.body+second.body, -1) {
			if seen[m[1]] {
				t.Errorf("%s: %s twice", query, m[1])
			}
			seen[m[1]] = true
		}
		if len(seen) != 30 {
			t.Errorf("%s: %d files", query, len(seen))
		}
		cursor := regexp.MustCompile(`cursor=[^&"]+`).FindString(next[1])
		o.ask(t, "GET", "/uploads?sort=-filename&"+cursor, nil).wants(t, "a cursor of another order", 422, "in another order")
	}
}

func TestAThumbnailIsShownAndNeverTheFile(t *testing.T) {
	t.Parallel()
	o := newArchive(t)
	eve := o.add(t, "eve@example.com", identity.User)
	original := picture(t)
	u := o.put(t, eve, `"><script>alert(1)</script>`, original)
	text := o.put(t, eve, "notes.txt", []byte("<svg onload=alert(1)>"[5:]))
	path := fmt.Sprintf("/uploads/%d", u.ID)
	o.ask(t, "GET", path+"/thumbnail", nil).wants(t, "before it is made", 404, "")
	if err := o.uploads.MakeThumbnail(identity.NewContext(t.Context(), identity.System("test")), upload.ThumbnailJob{ID: u.ID}); err != nil {
		t.Fatal(err)
	}
	a := o.ask(t, "GET", path+"/thumbnail", nil)
	if a.status != 200 || !strings.HasPrefix(a.header.Get("Content-Type"), "image/") || a.body == string(original) || !strings.Contains(a.header.Get("Content-Security-Policy"), "sandbox") || a.header.Get("X-Content-Type-Options") != "nosniff" {
		t.Fatalf("%d %v", a.status, a.header)
	}
	if config, _, err := image.DecodeConfig(strings.NewReader(a.body)); err != nil || config.Width != 320 {
		t.Errorf("%v %v", config, err)
	}
	if again := o.ask(t, "GET", path+"/thumbnail", nil, "If-None-Match", a.header.Get("ETag")); again.status != 304 {
		t.Errorf("asked again: %d", again.status)
	}
	for _, at := range []string{path, "/uploads", fmt.Sprintf("/uploads/%d", text.ID)} {
		p := o.ask(t, "GET", at, nil)
		for _, src := range regexp.MustCompile(`src="([^"]*)"`).FindAllStringSubmatch(p.body, -1) {
			if src[1] != "/admin"+path+"/thumbnail" {
				t.Errorf("%s loads %s", at, src[1])
			}
		}
		if strings.Contains(p.body, "<script>alert") || strings.Contains(p.body, "<svg onload") || !strings.Contains(p.header.Get("Content-Security-Policy"), "img-src 'self';") {
			t.Errorf("%s: %v %s", at, p.header, p.body)
		}
	}
	o.ask(t, "GET", fmt.Sprintf("/uploads/%d/thumbnail", text.ID), nil).wants(t, "of a text", 404, "")
	o.signIn(t, "eve@example.com")
	o.ask(t, "GET", path+"/thumbnail", nil).wants(t, "to no ADMIN, though it is hers", 403, "for administrators")
	o.cookie = ""
	o.ask(t, "GET", path+"/thumbnail", nil).wants(t, "to nobody", 303, "")
}

func TestAFileIsDownloadedLinkedRenamedAndDeleted(t *testing.T) {
	t.Parallel()
	o := newArchive(t)
	eve := o.add(t, "eve@example.com", identity.User)
	u := o.put(t, eve, "notes.txt", []byte("hello"))
	path := fmt.Sprintf("/uploads/%d", u.ID)
	a := o.ask(t, "POST", path+"/download", nil)
	to, err := url.Parse(a.header.Get("Location"))
	if err != nil || a.status != 303 || to.IsAbs() || to.Path != fmt.Sprintf("/api/uploads/%d/content", u.ID) {
		t.Fatalf("%d %s %v", a.status, to, err)
	}
	if c, err := o.uploads.Open(t.Context(), u.ID, to.Query().Get("link")); err != nil {
		t.Error(err)
	} else {
		_ = c.Close()
	}
	a = o.ask(t, "POST", path+"/link", url.Values{"expires_in": {"3600"}})
	a.wants(t, "a link", 200, baseURL+"/api/uploads/")
	if a.header.Get("Cache-Control") != "no-store" {
		t.Error(a.header)
	}
	o.ask(t, "POST", path+"/link", url.Values{"expires_in": {"999999"}}).wants(t, "for too long", 422, "Must be 1 to 86400 seconds.")
	a = o.ask(t, "POST", path+"/rename", url.Values{"filename": {strings.Repeat("x", 300)}})
	a.wants(t, "a long name", 422, strings.Repeat("x", 300))
	o.ask(t, "POST", path+"/rename", url.Values{"filename": {"plan.txt"}}).wants(t, "renamed", 303, "")
	o.ask(t, "GET", path, nil).wants(t, "renamed", 200, "plan.txt")
	o.ask(t, "GET", path+"/delete", nil).wants(t, "asked", 200, "Delete the file")
	o.ask(t, "GET", path, nil).wants(t, "asked only", 200, "plan.txt")
	o.ask(t, "POST", path+"/delete", nil).wants(t, "deleted", 303, "")
	o.ask(t, "GET", path, nil).wants(t, "gone", 404, "There is no such page")
	o.ask(t, "POST", path+"/delete", nil).wants(t, "gone", 404, "no such file")
	if usage, err := o.uploads.Usage(identity.NewContext(t.Context(), o.root)); err != nil || usage.Bytes != 0 {
		t.Errorf("%+v %v", usage, err)
	}
}
