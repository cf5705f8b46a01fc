package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/internal/account"
)

// searchLimit is what half of the searches may take.
const searchLimit = 20 * time.Millisecond

// wordClass are words that a part of all posts have, each of them.
type wordClass struct {
	name  string
	share float64
	words []string
}

// wordClasses are the words that are searched for. None is the beginning of another.
var wordClasses = []wordClass{
	{"0.01 %", 0.0001, []string{"kestrel", "lapwing", "merlin", "nuthatch", "osprey", "plover"}},
	{"1 %", 0.01, []string{"alder", "birch", "cedar", "dogwood"}},
	{"30 %", 0.3, []string{"granite", "basalt", "chalk"}},
}

const (
	searchEmail    = "ada@example.com"
	searchPassword = "correct horse battery staple"
	searchWarmups  = 10
	// searchVocabulary is how many other words there are; they are as common as Zipf says.
	searchVocabulary = 50_000
)

// searchFigure searches a million posts for words that are more and less common, alone
// and in pairs, in both orders, since the last one is a beginning.
func searchFigure(ctx context.Context, w *world) error {
	if err := w.fillPosts(ctx); err != nil {
		return err
	}
	if err := w.serve(ctx); err != nil {
		return err
	}
	token, err := w.signIn(ctx, searchEmail, searchPassword)
	if err != nil {
		return err
	}
	for _, sort := range []string{"-created_at", "created_at", "title", "-title"} {
		must := ""
		if sort == "-created_at" {
			must = fmt.Sprintf("   p50 <= %v", searchLimit)
		}
		fmt.Printf("   sort=%-18s %10s %10s%s\n", sort, "p50", "p99", must)
		for _, c := range searchClasses() {
			took, err := w.timeSearches(ctx, c, sort, token)
			if err != nil {
				return err
			}
			said := ""
			if must != "" {
				said = "   " + verdict(median(took) <= searchLimit)
			}
			slices.Sort(took)
			fmt.Printf("   %-23s %10v %10v%s\n", className(c), round(median(took)), round(took[len(took)*99/100]), said)
		}
	}
	return nil
}

// searchClasses are each class alone, and all pairs in both orders.
func searchClasses() [][]wordClass {
	var list [][]wordClass
	for _, a := range wordClasses {
		list = append(list, []wordClass{a})
	}
	for _, a := range wordClasses {
		for _, b := range wordClasses {
			list = append(list, []wordClass{a, b})
		}
	}
	return list
}

func className(c []wordClass) string {
	names := make([]string, len(c))
	for i, one := range c {
		names[i] = one.name
	}
	return strings.Join(names, " and ")
}

// timeSearches asks for words of these classes, which change from one to the next.
func (w *world) timeSearches(ctx context.Context, classes []wordClass, sort, token string) ([]time.Duration, error) {
	rng := rand.New(rand.NewPCG(3, 4))
	var took []time.Duration
	for n := range w.requests + searchWarmups {
		var q []string
		for _, c := range classes {
			word := c.words[rng.IntN(len(c.words))]
			for slices.Contains(q, word) {
				word = c.words[rng.IntN(len(c.words))]
			}
			q = append(q, word)
		}
		each, err := w.askAs(ctx, "/api/posts?sort="+sort+"&q="+url.QueryEscape(strings.Join(q, " ")), token)
		if err != nil {
			return nil, err
		}
		if n >= searchWarmups {
			took = append(took, each)
		}
	}
	return took, nil
}

func (w *world) signIn(ctx context.Context, email, password string) (string, error) {
	body := fmt.Sprintf(`{"email":%q,"password":%q}`, email, password)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url+"/api/auth/login", strings.NewReader(body))
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var in struct {
		Data struct {
			AccessToken string `json:"access_token"`
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&in); err != nil || resp.StatusCode != http.StatusOK {
		return "", errors.Join(fmt.Errorf("sign in: %d", resp.StatusCode), err)
	}
	return in.Data.AccessToken, nil
}

// askAs times a GET by who has a token.
func (w *world) askAs(ctx context.Context, path, token string) (time.Duration, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.url+path, nil)
	if err != nil {
		return 0, err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	started := time.Now()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err
	}
	if resp.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("%s: %d %s", path, resp.StatusCode, body)
	}
	return time.Since(started), nil
}

// fillPosts writes posts and their words, as the service would, but all at once: without
// the audit log, and the index of words last. A kept database has them already.
func (w *world) fillPosts(ctx context.Context) error {
	var there int
	if err := w.owner.QueryRow(ctx, `select count(*) from posts`).Scan(&there); err != nil || there == w.posts {
		return err
	}
	accounts, err := account.New(account.Options{DB: w.db})
	if err != nil {
		return err
	}
	a, err := accounts.Create(ctx, account.NewUser{FirstName: "Ada", LastName: "Lovelace", Email: searchEmail, Password: searchPassword})
	if err != nil {
		return err
	}
	started := time.Now()
	_, err = w.owner.Exec(ctx, `alter table posts disable trigger user; drop index post_words_words;
		create unlogged table bench_words (id bigint, created_at timestamptz, words text[]);
		insert into audit_excluded (pattern, reason) values ('bench\_%', 'the limits of measurements') on conflict do nothing`)
	if err != nil {
		return err
	}
	if err := w.copyPosts(ctx, a.ID); err != nil {
		return err
	}
	for _, sql := range []string{
		`insert into post_words (id, created_at, words) select id, created_at, array_to_tsvector(words) from bench_words order by id`,
		`drop table bench_words`,
		`create index post_words_words on post_words using gin (words) with (fastupdate = off)`,
		`alter table posts enable trigger user`,
		`alter table posts enable always trigger audit_row`,
		`alter table posts enable always trigger audit_truncate`,
		`vacuum analyze posts`,
		`vacuum analyze post_words`,
	} {
		if _, err := w.owner.Exec(ctx, sql); err != nil {
			return fmt.Errorf("%s: %w", sql, err)
		}
	}
	fmt.Printf("   %d posts of some 100 words, written in %v\n", w.posts, time.Since(started).Round(time.Second))
	return nil
}

// copyPosts writes posts into their table, and their words into bench_words.
func (w *world) copyPosts(ctx context.Context, author int64) error {
	rng := rand.New(rand.NewPCG(1, 2))
	const batch = 10_000
	begin := time.Now().Add(-time.Duration(w.posts) * time.Minute)
	for first := 0; first < w.posts; first += batch {
		var posts, words [][]any
		for i := first; i < min(first+batch, w.posts); i++ {
			text := postWords(rng)
			at := begin.Add(time.Duration(i) * time.Minute)
			posts = append(posts, []any{int64(i + 1), author, strings.Join(text[:4], " "), strings.Join(text[4:], " "), []string{"bench"}, at, at})
			slices.Sort(text)
			words = append(words, []any{int64(i + 1), at, slices.Compact(text)})
		}
		if _, err := w.owner.CopyFrom(ctx, pgx.Identifier{"posts"}, []string{"id", "author_id", "title", "body", "tags", "created_at", "updated_at"}, pgx.CopyFromRows(posts)); err != nil {
			return err
		}
		if _, err := w.owner.CopyFrom(ctx, pgx.Identifier{"bench_words"}, []string{"id", "created_at", "words"}, pgx.CopyFromRows(words)); err != nil {
			return err
		}
	}
	return nil
}

// postWords are 70 to 130 words of a vocabulary in which few are common, and those of the
// classes.
func postWords(rng *rand.Rand) []string {
	text := make([]string, 70+rng.IntN(60))
	for i := range text {
		text[i] = fmt.Sprintf("w%d", int(math.Exp(rng.Float64()*math.Log(searchVocabulary))))
	}
	for _, c := range wordClasses {
		for _, word := range c.words {
			if rng.Float64() < c.share {
				text = append(text, word)
			}
		}
	}
	rng.Shuffle(len(text), func(i, j int) { text[i], text[j] = text[j], text[i] })
	return text
}
