package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/google/go-cmp/cmp"

	"github.com/waypost/waypost/api"
	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/httpedge"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/queue"
	"github.com/waypost/waypost/internal/site"
	"github.com/waypost/waypost/internal/stats"
)

// byRole signs in whoever names a role as the token.
type byRole struct{}

func (byRole) Authenticate(_ context.Context, token string) (identity.Principal, error) {
	if r := identity.Role(token); r.Valid() {
		return identity.Account(1, r, "session"), nil
	}
	return identity.Principal{}, fault.New(fault.Unauthenticated, "token_invalid", "No.")
}

// siteAPI is all of the API that concerns sites.
type siteAPI struct {
	handler  http.Handler
	db       *db.DB
	sites    *site.Service
	ingester *stats.Ingester
}

// limits are how often per minute something may be asked; 0 is without limit.
type limits struct{ key, site, address int }

func newSiteAPI(t *testing.T, most limits) siteAPI {
	t.Helper()
	d, logger := dbtest.New(t), slog.New(slog.DiscardHandler)
	sites, err := site.New(site.Options{DB: d, Logger: logger})
	if err != nil {
		t.Fatal(err)
	}
	ingester, err := stats.NewIngester(stats.IngesterOptions{DB: d, Sites: sites, Keys: statsKeys(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ingester.Close() })
	service, err := stats.NewService(stats.ServiceOptions{DB: d})
	if err != nil {
		t.Fatal(err)
	}
	jobs, err := queue.New(logger)
	if err != nil {
		t.Fatal(err)
	}
	eraser, err := stats.NewEraser(stats.EraserOptions{DB: d, Queue: jobs})
	if err != nil {
		t.Fatal(err)
	}
	r := chi.NewRouter()
	if err := httpedge.Use(r, httpedge.Options{Logger: logger}); err != nil {
		t.Fatal(err)
	}
	if _, err := api.Mount(r, api.Options{
		BaseURL: baseURL, Authenticator: byRole{}, SiteKeys: sites, KeyRate: most.key,
		Resources: []api.Resource{
			api.Sites(sites, eraser, service),
			api.Statistics(service, sites, api.Collection{Sites: sites, Collector: ingester, Batches: ingester, SiteRate: most.site, AddressRate: most.address}),
		},
	}); err != nil {
		t.Fatal(err)
	}
	return siteAPI{handler: r, db: d, sites: sites, ingester: ingester}
}

// send calls as an ADMIN, unless headers say otherwise.
func (s siteAPI) send(t *testing.T, method, path, body string, headers ...string) answer {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", browser)
	r.Header.Set("Authorization", "Bearer ADMIN")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, r)
	a := answer{status: w.Code, header: w.Header(), text: w.Body.String()}
	if w.Body.Len() > 0 {
		if err := json.Unmarshal(w.Body.Bytes(), &a.body); err != nil {
			t.Fatalf("%s %s: %d %q: %v", method, path, w.Code, a.text, err)
		}
	}
	return a
}

type siteData struct {
	ID           string
	Name         string
	Domain       string
	Timezone     string
	TimezoneFrom string `json:"timezone_from"`
	SiteKey      string `json:"site_key"`
}

func (s siteAPI) create(t *testing.T, body string) siteData {
	t.Helper()
	a := s.send(t, "POST", "/api/admin/sites", body)
	if a.status != http.StatusCreated {
		t.Fatalf("%d %s", a.status, a.text)
	}
	return a.site(t)
}

func (a answer) site(t *testing.T) siteData {
	t.Helper()
	var d siteData
	if err := json.Unmarshal(a.body.Data, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// key makes a secret key and returns its id and secret.
func (s siteAPI) key(t *testing.T, siteID, body string) (string, string) {
	t.Helper()
	a := s.send(t, "POST", "/api/admin/sites/"+siteID+"/keys", body)
	var d struct{ ID, Key, Prefix, Scope string }
	if err := json.Unmarshal(a.body.Data, &d); err != nil || a.status != http.StatusCreated || !strings.HasPrefix(d.Key, d.Prefix) {
		t.Fatalf("%d %s %v", a.status, a.text, err)
	}
	if a.header.Get("Cache-Control") != "no-store" {
		t.Error("a secret may be kept by a cache")
	}
	return d.ID, d.Key
}

func TestASiteLivesFromItsCreationToItsDeletion(t *testing.T) {
	t.Parallel()
	s := newSiteAPI(t, limits{})
	a := s.send(t, "POST", "/api/admin/sites", `{"name":"Blog","domain":"Blog.Example.com"}`)
	made := a.site(t)
	want := siteData{ID: made.ID, Name: "Blog", Domain: "blog.example.com", Timezone: "UTC", SiteKey: made.SiteKey}
	if diff := cmp.Diff(want, made); diff != "" || a.status != 201 || !strings.HasPrefix(made.SiteKey, "wps_") {
		t.Fatalf("%d %s", a.status, diff)
	}
	path := "/api/admin/sites/" + made.ID
	if got := a.header.Get("Location"); got != path {
		t.Errorf("Location %q", got)
	}
	if diff := cmp.Diff(want, s.send(t, "GET", path, "").site(t)); diff != "" {
		t.Error(diff)
	}
	changed := s.send(t, "PATCH", path, `{"timezone":"Asia/Tokyo"}`).site(t)
	midnight := time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, 1).Format(time.RFC3339)
	if changed.Timezone != "Asia/Tokyo" || changed.Name != "Blog" || changed.TimezoneFrom == "" || changed.TimezoneFrom > midnight {
		t.Errorf("%+v, midnight %s", changed, midnight)
	}
	// A client writes back what it read.
	if a := s.send(t, "PUT", path, string(s.send(t, "GET", path, "").body.Data)); a.status != 200 || a.site(t).Timezone != "Asia/Tokyo" {
		t.Errorf("%d %s", a.status, a.text)
	}
	for body, field := range map[string]string{
		`{"name":""}`: "body.name", `{"domain":"https://x"}`: "body.domain", `{"timezone":"Mars/Olympus"}`: "body.timezone",
		`{"nom":"x"}`: "body.nom", `{"name":null}`: "body.name", `{"name":"a\u0000"}`: "body.name",
	} {
		a := s.send(t, "PATCH", path, body)
		a.wants(t, body, 422, "validation_failed")
		if a.body.Error.Details[field] == "" {
			t.Errorf("%s: %v", body, a.body.Error.Details)
		}
	}
	if a := s.send(t, "DELETE", path, ""); a.status != 204 || a.text != "" {
		t.Errorf("%d %s", a.status, a.text)
	}
	for _, method := range []string{"GET", "DELETE"} {
		s.send(t, method, path, "").wants(t, method+" after deletion", 404, "not_found")
	}
	s.send(t, "PATCH", path, `{}`).wants(t, "PATCH after deletion", 404, "not_found")
	var jobs int
	if err := s.db.Pool().QueryRow(t.Context(), `select count(*) from river_job where kind = 'sites.erase' and args->>'site_id' = $1`, made.ID).Scan(&jobs); err != nil || jobs != 1 {
		t.Errorf("%d jobs, %v", jobs, err)
	}
}

func TestSitesArePagedNewestFirst(t *testing.T) {
	t.Parallel()
	s := newSiteAPI(t, limits{})
	var want []string
	for n := range 5 {
		want = append([]string{s.create(t, fmt.Sprintf(`{"name":"Site %d","domain":"example.com"}`, n)).ID}, want...)
	}
	var got []string
	for cursor := ""; ; {
		a := s.send(t, "GET", "/api/admin/sites?limit=2&total=true&cursor="+cursor, "")
		var page []siteData
		if err := json.Unmarshal(a.body.Data, &page); err != nil || a.body.Meta.Total == nil || *a.body.Meta.Total != 5 {
			t.Fatalf("%d %s %v", a.status, a.text, err)
		}
		for _, d := range page {
			got = append(got, d.ID)
		}
		if cursor = a.body.Meta.NextCursor; !a.body.Meta.HasMore {
			break
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	s.send(t, "GET", "/api/admin/sites?cursor=x", "").wants(t, "a broken cursor", 422, "validation_failed")
}

func TestASecretKeyIsShownOnceRotatedAndRevoked(t *testing.T) {
	t.Parallel()
	s := newSiteAPI(t, limits{})
	made := s.create(t, `{"name":"Blog","domain":"example.com"}`)
	id, secret := s.key(t, made.ID, `{"name":"reader"}`)
	keys := "/api/admin/sites/" + made.ID + "/keys"
	reads := func(key string) int {
		return s.send(t, "GET", "/api/stats/realtime", "", "X-Analytics-API-Key", key).status
	}
	if got := reads(secret); got != 200 {
		t.Fatalf("reads with %d", got)
	}
	list := s.send(t, "GET", keys, "")
	if list.status != 200 || strings.Contains(list.text, secret) || !strings.Contains(list.text, `"last_used_at"`) || !strings.Contains(list.text, `"scope":"read"`) {
		t.Errorf("%d %s", list.status, list.text)
	}
	a := s.send(t, "POST", keys+"/"+id+"/rotate?grace=3600", "")
	var rotated struct{ ID, Key, Name string }
	if err := json.Unmarshal(a.body.Data, &rotated); err != nil || a.status != 201 || rotated.Name != "reader" {
		t.Fatalf("%d %s %v", a.status, a.text, err)
	}
	if reads(secret) != 200 || reads(rotated.Key) != 200 {
		t.Error("a rotation leaves both keys working for its grace")
	}
	s.send(t, "POST", keys+"/"+id+"/rotate", "").wants(t, "a second rotation", 409, "key_retired")
	for range 2 {
		if a := s.send(t, "DELETE", keys+"/"+rotated.ID, ""); a.status != 204 {
			t.Errorf("%d %s", a.status, a.text)
		}
	}
	if got := reads(rotated.Key); got != 401 {
		t.Errorf("a revoked key reads with %d", got)
	}
	s.send(t, "POST", keys, `{"name":"x","scope":"write"}`).wants(t, "no scope", 422, "validation_failed")
	s.send(t, "POST", keys, `{"scope":"read"}`).wants(t, "no name", 422, "validation_failed")
	s.send(t, "POST", keys+"/"+made.ID+"/rotate", "").wants(t, "no key", 404, "not_found")
	s.send(t, "GET", "/api/admin/sites/x/keys", "").wants(t, "no site", 404, "not_found")
	if a := s.send(t, "DELETE", "/api/admin/sites/"+made.ID, ""); a.status != 204 {
		t.Fatalf("%d %s", a.status, a.text)
	}
	if got := reads(secret); got != 401 {
		t.Errorf("the key of a deleted site reads with %d", got)
	}
}

func TestABatchIsAnsweredEventByEvent(t *testing.T) {
	t.Parallel()
	s := newSiteAPI(t, limits{})
	made := s.create(t, `{"name":"Blog","domain":"example.com"}`)
	_, ingest := s.key(t, made.ID, `{"name":"feeder","scope":"ingest"}`)
	_, read := s.key(t, made.ID, `{"name":"reader"}`)
	send := func(body, key string) answer {
		return s.send(t, "POST", "/api/collect/batch", body, "X-Analytics-API-Key", key, "Authorization", "")
	}
	now := time.Now().UTC().Format(time.RFC3339Nano)
	good := func(id string) string {
		return fmt.Sprintf(`{"event_id":%q,"ts":%q,"url":"https://example.com/","ip":"192.0.2.1","user_agent":%q,"name":"buy","props":{"n":1}}`, id, now, browser)
	}
	body := `{"events":[` + strings.Join([]string{
		good("a"), `"x"`, `null`, strings.Replace(good("b"), `"name"`, `"nom"`, 1), strings.Replace(good("c"), "buy", `\u0000`, 1),
		strings.Replace(good("d"), "192.0.2.1", "nowhere", 1), strings.Replace(good("e"), now, "2001-01-01T00:00:00Z", 1),
		good("a"), strings.Replace(good("f"), `{"n":1}`, `{"n":[]}`, 1), `{"event_id":"g"}`, good("h"),
	}, ",") + `]}`
	for round, want := range []string{`{"accepted":3,"duplicate":1,`, `{"accepted":0,"duplicate":4,`} {
		a := send(body, ingest)
		var got struct {
			Rejected []struct {
				Index   int
				Code    string
				Message string
			}
		}
		if err := json.Unmarshal([]byte(a.text), &got); err != nil || a.status != 200 || !strings.HasPrefix(a.text, want) {
			t.Fatalf("round %d: %d %s", round, a.status, a.text)
		}
		var indexes []int
		for _, r := range got.Rejected {
			indexes = append(indexes, r.Index)
			if wantCode := map[bool]string{true: "too_old", false: "validation_failed"}[r.Index == 6]; r.Code != wantCode || r.Message == "" {
				t.Errorf("%+v", r)
			}
		}
		if diff := cmp.Diff([]int{1, 2, 3, 4, 5, 6, 9}, indexes); diff != "" {
			t.Error(diff)
		}
	}
	var events int
	if err := s.db.Pool().QueryRow(t.Context(), `select count(*) from events where name = 'buy'`).Scan(&events); err != nil || events != 3 {
		t.Errorf("%d events, %v", events, err)
	}
	send(body, read).wants(t, "a reading key", 403, "forbidden")
	send(body, "").wants(t, "no key", 401, "invalid_api_key")
	if a := s.send(t, "GET", "/api/stats/summary", "", "X-Analytics-API-Key", ingest); a.status != 403 {
		t.Errorf("an ingesting key reads with %d", a.status)
	}
	for broken, status := range map[string]int{
		`{}`: 422, `[]`: 422, `{"events":[]}`: 422, `{"events":{}}`: 422, `{"events":null}`: 422, `{"events":[{}],"x":1}`: 422, `{"events":[`: 400, ``: 400,
		`{"events":[` + strings.Repeat(`{},`, 1000) + `{}]}`: 422, `{"events":["` + strings.Repeat("x", 1<<20) + `"]}`: 413,
	} {
		if a := send(broken, ingest); a.status != status {
			t.Errorf("%.40s: %d %.200s", broken, a.status, a.text)
		}
	}
	drops := s.send(t, "GET", "/api/admin/sites/"+made.ID+"/drops?total=true", "")
	if drops.status != 200 || !strings.Contains(drops.text, `"reason":"too_old","count":2`) || !strings.Contains(drops.text, `"reason":"validation_failed","count":12`) {
		t.Errorf("%d %s", drops.status, drops.text)
	}
}

func TestOnlyAdministratorsKeepSites(t *testing.T) {
	t.Parallel()
	s := newSiteAPI(t, limits{})
	id := s.create(t, `{"name":"Blog","domain":"example.com"}`).ID
	key, _ := s.key(t, id, `{"name":"reader"}`)
	for _, call := range []string{
		"GET /api/admin/sites", "POST /api/admin/sites", "GET /api/admin/sites/" + id, "PATCH /api/admin/sites/" + id, "PUT /api/admin/sites/" + id,
		"DELETE /api/admin/sites/" + id, "GET /api/admin/sites/" + id + "/keys", "POST /api/admin/sites/" + id + "/keys",
		"POST /api/admin/sites/" + id + "/keys/" + key + "/rotate", "DELETE /api/admin/sites/" + id + "/keys/" + key, "GET /api/admin/sites/" + id + "/drops",
	} {
		method, path, _ := strings.Cut(call, " ")
		for token, status := range map[string]int{"USER": 403, "EDITOR": 403, "x": 401} {
			if a := s.send(t, method, path, `{}`, "Authorization", "Bearer "+token); a.status != status {
				t.Errorf("%s as %s: %d %s", call, token, a.status, a.text)
			}
		}
	}
}

func TestRatesAreLimitedByKeySiteAndAddress(t *testing.T) {
	t.Parallel()
	s := newSiteAPI(t, limits{key: 5, site: 8, address: 4})
	made := s.create(t, `{"name":"Blog","domain":"example.com"}`)
	_, first := s.key(t, made.ID, `{"name":"first"}`)
	_, second := s.key(t, made.ID, `{"name":"second"}`)
	// The window slides over minutes of the clock, so that one change of minute may
	// let a few more pass; far more than twice the limit never do.
	passed := func(n int, ask func() answer) int {
		count := 0
		for range n {
			switch a := ask(); {
			case a.status < 300:
				count++
			case a.status != http.StatusTooManyRequests || a.body.Error.Code != "rate_limited" || a.header.Get("Retry-After") == "":
				t.Fatalf("%d %s %v", a.status, a.text, a.header)
			}
		}
		return count
	}
	read := func(key string) func() answer {
		return func() answer { return s.send(t, "GET", "/api/stats/realtime", "", "X-Analytics-API-Key", key) }
	}
	if n := passed(30, read(first)); n < 5 || n > 10 {
		t.Errorf("%d reads passed", n)
	}
	if n := passed(1, read(second)); n != 1 {
		t.Error("one key's limit is another's")
	}
	hit := fmt.Sprintf(`{"site_key":%q,"url":"https://example.com/"}`, made.SiteKey)
	if n := passed(30, func() answer { return s.send(t, "POST", "/api/collect", hit) }); n < 4 || n > 8 {
		t.Errorf("%d hits of one address passed", n)
	}
}

func TestHitsBeyondALimitAreShownToTheOwner(t *testing.T) {
	t.Parallel()
	for name, most := range map[string]limits{"per site": {site: 8}, "per address": {address: 8}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSiteAPI(t, most)
			made, other := s.create(t, `{"name":"Blog","domain":"example.com"}`), s.create(t, `{"name":"Other","domain":"example.com"}`)
			hit := func(site siteData) int {
				return s.send(t, "POST", "/api/collect", fmt.Sprintf(`{"site_key":%q,"url":"https://example.com/"}`, site.SiteKey)).status
			}
			passed, refused := 0, 0
			for range 40 {
				switch status := hit(made); status {
				case http.StatusAccepted:
					passed++
				case http.StatusTooManyRequests:
					refused++
				default:
					t.Fatalf("status %d", status)
				}
			}
			// The window slides over minutes of the clock, so a few more may pass.
			if passed < 8 || passed > 16 {
				t.Errorf("%d hits passed", passed)
			}
			wantOther := http.StatusAccepted
			if most.address > 0 {
				wantOther = http.StatusTooManyRequests
			}
			if status := hit(other); status != wantOther {
				t.Errorf("another site's hit: %d, want %d", status, wantOther)
			}
			// A key of nobody counts nowhere and hinders nobody.
			s.send(t, "POST", "/api/collect", `{"site_key":"nobody's key","url":"https://example.com/"}`)
			if err := s.ingester.Close(); err != nil {
				t.Fatal(err)
			}
			var drops []struct {
				Reason string
				Count  int
			}
			a := s.send(t, "GET", "/api/admin/sites/"+made.ID+"/drops", "")
			if err := json.Unmarshal(a.body.Data, &drops); err != nil {
				t.Fatal(err)
			}
			if len(drops) != 1 || drops[0].Reason != "rate_limited" || drops[0].Count != refused {
				t.Errorf("%s, want %d hits of too many", a.text, refused)
			}
		})
	}
}
