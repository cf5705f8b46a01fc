package upload_test

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/text"
	"github.com/waypost/waypost/internal/upload"
)

func TestCase39And44NamesLoseTheirPathsAndWhatCantBeSeen(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é", 300)
	for sent, want := range map[string]string{
		"notes.txt": "notes.txt", "../../etc/passwd": "passwd", `C:\Users\ada\notes.txt`: "notes.txt", "/etc/": "file", "": "file", ".": "file", "..": "file", " . ": "file",
		"a\x00b": "a\uFFFDb", "a\r\nSet-Cookie: x": "aSet-Cookie: x", "gpj.\u202Eexe": "gpj.exe", `a"b.txt`: `a"b.txt`, "\xff.txt": "\uFFFD.txt", "CON": "CON", "  x  ": "x",
		"علی\u200cرضا.pdf": "علی\u200cرضا.pdf", long + ".txt": long[:251*2] + ".txt", long: long[:255*2], "a." + strings.Repeat("x", 300): "a." + strings.Repeat("x", 253),
	} {
		if got := upload.CleanFilename(sent); got != want {
			t.Errorf("%q became %q, want %q", sent, got, want)
		}
	}
}

func wantName(t interface{ Fatalf(string, ...any) }, sent string) {
	name := upload.CleanFilename(sent)
	n := utf8.RuneCountInString(name)
	if n < 1 || n > upload.MaxFilename || !text.Storable(name) || !text.IsLine(name) || strings.ContainsAny(name, `/\`) || strings.Trim(name, ". ") == "" {
		t.Fatalf("%q became %q", sent, name)
	}
	if again := upload.CleanFilename(name); again != name {
		t.Fatalf("%q became %q, and that %q", sent, name, again)
	}
}

func TestEveryNameBecomesOneThatCanBeShownAndStaysSo(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		wantName(t, rapid.OneOf(rapid.String(), rapid.StringN(200, 300, -1), rapid.StringMatching(`[./\\ \n\x{202E}a]{0,8}`)).Draw(t, "sent"))
	})
}

func FuzzCleanFilename(f *testing.F) {
	f.Add("notes.txt")
	f.Add("../\x00\xff\u202E")
	f.Fuzz(func(t *testing.T, sent string) { wantName(t, sent) })
}

func TestAChosenNameIsJudgedInsteadOfCleaned(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	u := f.mustSend("Notes")
	for _, bad := range []string{"", "a/b", `a\b`, "..", ".", " ", "a\nb", "a\u202Eb", strings.Repeat("x", 256)} {
		if _, err := f.Update(f.as(0), u.ID, upload.Change{Filename: &bad}); !errors.Is(err, fault.Validation(nil)) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	good := "Notes on the engine.md"
	if got, err := f.Update(f.as(0), u.ID, upload.Change{Filename: &good}); err != nil || got.Filename != good || got.ContentType != "text/plain" {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := f.Update(f.as(0), u.ID, upload.Change{Filename: new(" " + good + "\u00a0")}); err != nil || got.Filename != good {
		t.Errorf("among white space: %q, %v", got.Filename, err)
	}
	if got, err := f.Update(f.as(0), u.ID, upload.Change{}); err != nil || got.Filename != good {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestListsFilterSortAndPage(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for name, content := range map[string]string{"b.txt": "xx", "a_1.txt": "x", "c.txt": "xxx"} {
		if _, err := f.sendAs(0, upload.File{Filename: name, ContentType: "text/plain", Expected: -1}, content); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := f.sendAs(0, upload.File{Filename: "d.png", Expected: -1}, picture(t, 2, 2)); err != nil {
		t.Fatal(err)
	}
	if _, err := f.sendAs(1, upload.File{Filename: "foreign.txt", Expected: -1}, "x"); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		filter upload.Filter
		want   string
	}{
		"by size":      {upload.Filter{Sort: "size"}, "a_1.txt b.txt c.txt d.png"},
		"by name":      {upload.Filter{Sort: "-filename"}, "d.png c.txt b.txt a_1.txt"},
		"images":       {upload.Filter{ContentType: "image/*"}, "d.png"},
		"a type":       {upload.Filter{ContentType: "text/plain", Sort: "filename"}, "a_1.txt b.txt c.txt"},
		"a name":       {upload.Filter{Query: "A_"}, "a_1.txt"},
		"what is none": {upload.Filter{Query: "%"}, ""},
	} {
		for _, limit := range []int{1, 3, 50} {
			var got []string
			tc.filter.Limit, tc.filter.After, tc.filter.Count = limit, nil, true
			for {
				page, total, err := f.List(f.as(0), tc.filter)
				if err != nil {
					t.Fatal(err)
				}
				if want := len(strings.Fields(tc.want)); *total != int64(want) {
					t.Errorf("%s: %d in all, want %d", name, *total, want)
				}
				for _, u := range page {
					got = append(got, u.Filename)
				}
				if len(page) < limit {
					break
				}
				tc.filter.After = new(page[len(page)-1].Position())
			}
			if strings.Join(got, " ") != tc.want {
				t.Errorf("%s, %d at a time: %v", name, limit, got)
			}
		}
	}
	if _, _, err := f.List(f.as(1), upload.Filter{OwnerID: f.owners[0], Limit: 9}); !errors.Is(err, upload.ErrNotAdmin) {
		t.Error(err)
	}
	if _, _, err := f.List(f.as(0), upload.Filter{Sort: "sha256", Limit: 9}); !errors.Is(err, fault.Validation(nil)) {
		t.Error(err)
	}
}

func TestCase40And41TheContentDecidesOfWhichTypeAFileIs(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(o *upload.Options) {
		o.Types = append(upload.DefaultTypes(), "text/html", "image/svg+xml") // which are never accepted
	})
	const none = "415"
	for name, tc := range map[string]struct{ declared, content, want string }{
		"a page as an image":        {"image/png", "<!DOCTYPE html><html></html>", none},
		"a page as text":            {"text/plain", "  <html><script>alert(1)</script>", none},
		"a page as itself":          {"text/html", "<html></html>", none},
		"a drawing as an image":     {"image/png", `<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>`, none},
		"a drawing behind XML":      {"text/plain", `<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg"/>`, none},
		"XHTML":                     {"text/plain", `<?xml version="1.0"?><html xmlns="http://www.w3.org/1999/xhtml"/>`, none},
		"a program":                 {"image/png", "\x7fELF\x02\x01\x01", none},
		"bytes":                     {"", "\x00\x01\x02\x03", none},
		"an image as another":       {"image/jpeg", picture(t, 2, 2), "image/png"},
		"an image as text":          {"text/plain", picture(t, 2, 2), "image/png"},
		"an image that is a script": {"image/gif", "GIF89a/*\x01\x00\x00\x00\x00*/=1;alert(1)", "image/gif"},
		"text":                      {"", "Notes", "text/plain"},
		"CSV":                       {"text/csv", "Notes", "text/csv"},
		"Markdown":                  {"text/markdown; charset=utf-8", "# Notes", "text/markdown"},
		"JSON":                      {"application/json", `{"a": 1}`, "application/json"},
		"half of JSON":              {"application/json", `{"a": `, "application/json"},
		"JSON that nobody declared": {"", `{"a": 1}`, "application/json"},
		"a PDF":                     {"text/plain", "%PDF-1.7\n", "application/pdf"},
		"an archive":                {"", "PK\x03\x04\x14\x00\x00\x00", "application/zip"},
		"nothing":                   {"", "", "text/plain"},
	} {
		u, err := f.sendAs(0, upload.File{ContentType: tc.declared, Expected: -1}, tc.content)
		got := u.ContentType
		if errors.Is(err, upload.ErrType) {
			got = none
		}
		if got != tc.want {
			t.Errorf("%s: %q, %v; want %s", name, got, err, tc.want)
		}
	}
	if upload.IsRaster("image/svg+xml") || upload.IsRaster("application/pdf") {
		t.Error("something that isn't a raster image may be shown inline")
	}
}
