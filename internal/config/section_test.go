package config_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gopkg.in/yaml.v3"

	"github.com/waypost/waypost/internal/config"
)

type shelf struct {
	Library struct {
		Name  string            `yaml:"name"`
		Open  bool              `yaml:"open"`
		Books []book            `yaml:"books"`
		Rooms map[string]string `yaml:"rooms"`
		Any   yaml.Node         `yaml:"any"`
	} `yaml:"library"`
	Rest map[string]yaml.Node `yaml:",inline"`
}

type book struct {
	Title string   `yaml:"title"`
	Pages *int64   `yaml:"pages"`
	Price float64  `yaml:"price"`
	Tags  []string `yaml:"tags"`
}

func TestWhatAFileGetsWrongIsNamedByLineAndPathWithWhatMayStandThere(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"library:\n  nmae: x":                                  `f:2: library: unknown member "nmae"; did you mean name? it may be any, books, name, open, rooms`,
		"library:\n  books:\n  - {titel: hunter2}":             `f:3: library.books[0]: unknown member "titel"; did you mean title? it may be pages, price, tags, title`,
		"library:\n  zzz: hunter2":                             `f:2: library: unknown member "zzz"; it may be any, books, name, open, rooms`,
		"library: hunter2":                                     "f:1: library: this is a single value; it should be a mapping with any, books, name, open, rooms",
		"library: []":                                          "f:1: library: this is a list; it should be a mapping with",
		"library:\n  books: {}":                                "f:2: library.books: this is a mapping; it should be a list",
		"library:\n  name: [hunter2]":                          "f:2: library.name: this is a list; it should be a text",
		"library:\n  open: hunter2":                            "f:2: library.open: this is a single value; it should be true or false",
		"library:\n  books: [{pages: 1.5}]":                    "f:2: library.books[0].pages: this is a single value; it should be a whole number",
		"library:\n  books: [{price: hunter2}]":                "f:2: library.books[0].price: this is a single value; it should be a number",
		"library:\n  books: [{tags: [a, {b: c}]}]":             "f:2: library.books[0].tags[1]: this is a mapping; it should be a text",
		"library:\n  rooms: {a: {b: hunter2}}":                 "f:2: library.rooms.a: this is a mapping; it should be a text",
		"hunter2":                                              "f:1: this is a single value; it should be a mapping with library",
		"library: [":                                           "f: line 1: ",
		"library: {books: [{}, ~]}":                            "f:1: library.books[1]: this entry is empty; it should be a mapping with pages",
		"library: {}\nlibrary: {}":                             `mapping key "library" already defined`,
		"library: &a {name: *a}":                               "f:1: library.name: this is a mapping",
		"x: &b {titel: hunter2}\nlibrary: {books: [{<<: *b}]}": `f:1: library.books[0]: unknown member "titel"`,
		"library:\n  books: [{titl: a}]\n  nam: b":             `library: unknown member "nam"`,
	} {
		var got shelf
		err := config.ReadSection("f", []byte(text), &got)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
		if err != nil && (strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "struct") || strings.Contains(err.Error(), "config_test")) {
			t.Errorf("%q: the error shows a value or a type of Go: %v", text, err)
		}
	}
	// Every fault is named, not only the first.
	err := config.ReadSection("f", []byte("library:\n  books: [{titl: a}]\n  nam: b"), new(shelf))
	if err == nil || strings.Count(err.Error(), "unknown member") != 2 {
		t.Error(err)
	}
}

func TestAFileIsDecodedAsItIsWritten(t *testing.T) {
	t.Parallel()
	var got shelf
	text := "x: &b {title: T}\nlibrary: {name: 5, open: true, rooms: {a: b}, any: [1, {c: d}], books: [{<<: *b, pages: 7, price: 2}, *b, {tags: ~}]}\nother: 1"
	if err := config.ReadSection("f", []byte(text), &got); err != nil {
		t.Fatal(err)
	}
	seven := int64(7)
	want := []book{{Title: "T", Pages: &seven, Price: 2}, {Title: "T"}, {}}
	if diff := cmp.Diff(want, got.Library.Books); diff != "" || got.Library.Name != "5" || !got.Library.Open || len(got.Rest) != 2 {
		t.Errorf("%+v\n%s", got, diff)
	}
	for _, empty := range []string{"", "# nothing", "library:", "library: {}"} {
		if err := config.ReadSection("f", []byte(empty), new(shelf)); err != nil {
			t.Errorf("%q: %v", empty, err)
		}
	}
}

func FuzzReadSection(f *testing.F) {
	f.Add([]byte("library: &a {books: [{<<: *a}, *a]}"))
	f.Add([]byte("? {a: b}\n: [c]\nlibrary: {? [x] : y, name: !!binary aGk=}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := config.ReadSection("f", data, new(shelf)); err != nil && strings.Contains(err.Error(), "shelf") {
			t.Fatalf("a type of Go: %v", err)
		}
	})
}
