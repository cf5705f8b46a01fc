package content_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db/page"
	"github.com/waypost/waypost/internal/content"
	"github.com/waypost/waypost/internal/content/words"
	"github.com/waypost/waypost/internal/identity"
)

// vocabulary has common words first and rare ones last, and words with a beginning in
// common.
var vocabulary = strings.Fields("the of and engine Engineer Lovelace loom weaves pattern algebra Bernoulli crème brûlée rare")

// library writes posts with made-up texts, some of them at one instant.
func (f fixture) library(t *testing.T, rng *rand.Rand, n int) []content.Post {
	t.Helper()
	var posts []content.Post
	for range n {
		var text []string
		for i, w := range vocabulary {
			if rng.Float64() < 0.8/float64(i+1) {
				text = append(text, w)
			}
		}
		rng.Shuffle(len(text), func(i, j int) { text[i], text[j] = text[j], text[i] })
		post := content.NewPost{AuthorID: f.authors[rng.IntN(2)], Title: fmt.Sprintf("Title %d", rng.IntN(20)), Body: strings.Join(append(text, "."), " ")}
		if rng.IntN(3) == 0 {
			post.Tags = []string{"tagged"}
		}
		posts = append(posts, f.write(t, post))
		if rng.IntN(2) == 0 {
			*f.now = f.now.Add(time.Second)
		}
	}
	return posts
}

// expected is what a filter selects of posts, by itself.
func expected(posts []content.Post, filter content.PostFilter) []int64 {
	q := words.Parse(filter.Query)
	var list []content.Post
	for _, p := range posts {
		if (filter.AuthorID == 0 || p.AuthorID == filter.AuthorID) && (filter.Tag == "" || slices.Contains(p.Tags, filter.Tag)) && q.Matches(words.Of(p.Title+"\n"+p.Body)) {
			list = append(list, p)
		}
	}
	slices.SortFunc(list, func(a, b content.Post) int {
		order := 0
		switch strings.TrimPrefix(filter.Sort, "-") {
		case "title":
			order = strings.Compare(a.Title, b.Title)
		default:
			order = a.CreatedAt.Compare(b.CreatedAt)
		}
		if order == 0 {
			order = int(a.ID - b.ID)
		}
		if strings.HasPrefix(filter.Sort, "-") {
			order = -order
		}
		return order
	})
	var ids []int64
	for _, p := range list {
		ids = append(ids, p.ID)
	}
	return ids
}

// Every way to find a page finds the same: what a plain reading of all posts does.
func TestSearchesFindWhatAPlainReadingFindsInEveryOrderAndPage(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	rng := rand.New(rand.NewPCG(1, 2))
	posts := f.library(t, rng, 300)
	f.analyze(t)
	queries := []string{"", "the", "of the", "rare", "the rare", "rare the", "r", "engine", "engine the", "ENG", "creme brulee", "brul crème", "brulee cre", "nowhere", "the nowhere", "!?"}
	for _, sample := range []int{3, 20, 1000} {
		f.SetSampleRows(sample)
		for range 60 {
			filter := content.PostFilter{Request: page.Request{
				Query: queries[rng.IntN(len(queries))], Limit: 1 + rng.IntN(30), Count: true,
				Sort: []string{"-created_at", "created_at", "title", "-title"}[rng.IntN(4)],
			}}
			if rng.IntN(3) == 0 {
				filter.Tag = "tagged"
			}
			if rng.IntN(3) == 0 {
				filter.AuthorID = f.authors[rng.IntN(2)]
			}
			want := expected(posts, filter)
			var got []int64
			for {
				some, err := f.ListPosts(t.Context(), filter)
				if err != nil {
					t.Fatal(err)
				}
				if *some.Total != int64(len(want)) {
					t.Fatalf("%+v: total %d, want %d", filter, *some.Total, len(want))
				}
				for _, p := range some.Rows {
					got = append(got, p.ID)
				}
				if filter.After = some.Next; filter.After == nil {
					break
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("samples of %d, %+v: %s", sample, filter, diff)
			}
		}
	}
}

// analyze makes the table's size known, as autovacuum does.
func (f fixture) analyze(t *testing.T) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), f.urls.Owner)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	if _, err := conn.Exec(t.Context(), "analyze"); err != nil {
		t.Fatal(err)
	}
}

// found are the titles of the posts that a query finds.
func (f fixture) found(t *testing.T, query string) []string {
	t.Helper()
	some, err := f.ListPosts(t.Context(), content.PostFilter{Request: page.Request{Query: query, Limit: 100}})
	if err != nil {
		t.Fatal(err)
	}
	titles := []string{}
	for _, p := range some.Rows {
		titles = append(titles, p.Title)
	}
	return titles
}

func TestAChangedTextIsFoundByItsNewWordsAlone(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	p := f.write(t, content.NewPost{Title: "Before", Body: "looms"})
	editor := identity.NewContext(t.Context(), identity.Account(f.authors[1], identity.Editor, ""))
	for _, change := range []content.PostChange{{Body: new("engines")}, {Title: new("After")}, {Tags: new([]string{"x"})}} {
		if _, err := f.UpdatePost(editor, p.ID, change); err != nil {
			t.Fatal(err)
		}
	}
	for query, want := range map[string][]string{"looms": {}, "before": {}, "engines after": {"After"}} {
		if diff := cmp.Diff(want, f.found(t, query)); diff != "" {
			t.Errorf("%s: %s", query, diff)
		}
	}
	if n, err := f.Unsearchable(t.Context(), f.db); err != nil || n != 0 {
		t.Errorf("%d texts wait to be indexed, %v", n, err)
	}
}

// An older program, and psql, know nothing of words.
func TestWhatOthersWroteIsIndexedLaterAndCountedUntilThen(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.write(t, content.NewPost{Title: "Ours", Body: "shuttle"})
	for _, sql := range []string{
		`insert into posts (author_id, title, body, created_at, updated_at) select id, 'Theirs', 'shuttle', now(), now() from users limit 1`,
		`insert into posts (author_id, title, body, created_at, updated_at) select id, 'Many', 'shuttle', now(), now() from users, generate_series(1, 60)`,
		`update posts set body = 'spindle' where title = 'Ours'`,
		`update posts set tags = '{x}' where title = 'Theirs'`,
	} {
		if _, err := f.db.Single(identity.System("test")).Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := f.Unsearchable(t.Context(), f.db); err != nil || n != 122 {
		t.Errorf("%d texts wait to be indexed, %v", n, err)
	}
	if got := f.found(t, "shuttle"); len(got) > 0 {
		t.Errorf("found already, or by words that are no longer there: %q", got)
	}
	if n, err := f.Index(t.Context()); err != nil || n != 122 {
		t.Errorf("%d indexed, %v", n, err)
	}
	if got := f.found(t, "shuttle"); len(got) != 100 || slices.Contains(got, "Ours") {
		t.Errorf("%d found", len(got))
	}
	if diff := cmp.Diff([]string{"Ours"}, f.found(t, "spin")); diff != "" {
		t.Error(diff)
	}
	if n, err := f.Index(t.Context()); err != nil || n != 0 {
		t.Errorf("%d indexed again, %v", n, err)
	}
}

func TestHostileTextsAreStoredAndFound(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for title, body := range map[string]string{
		"Long":      strings.Repeat("x", content.MaxBody),
		"Expanding": strings.Repeat("\ufdfa", content.MaxBody),
		"Distinct":  distinctWords(content.MaxBody),
		"Marks":     "e" + strings.Repeat("\u0301", content.MaxBody-1),
		"Syntax":    `' & | ! :* <-> \ "" ()`,
	} {
		f.write(t, content.NewPost{Title: title, Body: body})
		if diff := cmp.Diff([]string{title}, f.found(t, title)); diff != "" {
			t.Errorf("%s: %s", title, diff)
		}
	}
	if diff := cmp.Diff([]string{"Long"}, f.found(t, strings.Repeat("x", 200))); diff != "" {
		t.Error(diff)
	}
}

func distinctWords(length int) string {
	var b strings.Builder
	for i := 0; b.Len() < length-10; i++ {
		fmt.Fprintf(&b, "%x ", i)
	}
	return b.String()
}

func TestAPageOfLongTextsHasFewerRowsAndTheNextGoesOn(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const long = 30
	for i := range long {
		f.write(t, content.NewPost{Title: fmt.Sprintf("Long %02d", i), Body: strings.Repeat("𐐀", content.MaxBody)})
	}
	seen, pages := 0, 0
	var after *page.Position
	for {
		some, err := f.ListPosts(t.Context(), content.PostFilter{Request: page.Request{Limit: 100, After: after}})
		if err != nil || len(some.Rows) > 10 {
			t.Fatalf("%d rows of 400 kB, %v", len(some.Rows), err)
		}
		seen, pages = seen+len(some.Rows), pages+1
		if after = some.Next; after == nil {
			break
		}
	}
	if seen != long || pages != 3 {
		t.Errorf("%d rows on %d pages", seen, pages)
	}
}
