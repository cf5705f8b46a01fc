package main

import (
	"context"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/waypost/waypost/db/page"
)

const (
	pagesLimit = 50 * time.Millisecond
	// pagesWarmups come before the timed requests to a page; it has a few, since each
	// has an address of its own where there are so many.
	pagesWarmups = 2
	// pagesAlike is how many addresses of one kind are asked for.
	pagesAlike = 60
)

// pagesFigure requests every page of the desk as an ADMIN who is signed in, with as much
// behind it as the flags say: what navigation, tabs, links and filters lead to, and the
// cursors of a list's depth.
func pagesFigure(ctx context.Context, w *world) error {
	f, err := w.fillDesk(ctx)
	if err != nil {
		return err
	}
	if err := w.saySizes(ctx); err != nil {
		return err
	}
	if err := w.serveDesk(ctx); err != nil {
		return err
	}
	v, err := w.visit(ctx, pagesEmail, pagesPassword)
	if err != nil {
		return err
	}
	if err := v.walk(ctx); err != nil {
		return err
	}
	if err := w.addQuestions(ctx, v, f); err != nil {
		return err
	}
	return w.timePages(ctx, v)
}

func (w *world) serveDesk(ctx context.Context) error {
	file := filepath.Join(w.dir, "waypost.yaml")
	if err := os.WriteFile(file, []byte(pagesConfig), 0o600); err != nil {
		return err
	}
	return w.start(ctx, func(address string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, w.binary(), "serve", "--addr", address, "--url", w.url)
		cmd.Env = []string{
			"WAYPOST_CONFIG=" + file, "BENCH_SECRET=a secret of providers", "PAYMENT_WEBHOOK_SECRET=a secret", "CODEHOST_WEBHOOK_SECRET=a secret",
			"BENCH_FORWARD_SECRET=whsec_YSBrZXkgb2YgdGhlIGZvcndhcmRzIG9mIGEgYmVuY2g=", "WAYPOST_UPLOAD_DIR=" + filepath.Join(w.dir, "files"),
		}
		return cmd
	})
}

// pagesVisit is somebody who is signed in to the desk, and what there is to ask for.
type pagesVisit struct {
	client http.Client
	url    string
	// kinds are the kinds of pages in the order of their discovery, asked the addresses
	// of each.
	kinds []string
	asked map[string][]string
}

func (w *world) visit(ctx context.Context, email, password string) (*pagesVisit, error) {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return nil, err
	}
	v := &pagesVisit{url: w.url, asked: map[string][]string{}}
	v.client = http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	form := url.Values{"email": {email}, "password": {password}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url+"/admin/sign-in", strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := v.client.Do(req)
	if err != nil {
		return nil, err
	}
	if err := resp.Body.Close(); err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusSeeOther {
		return nil, fmt.Errorf("sign in to the desk: %d", resp.StatusCode)
	}
	return v, nil
}

// get asks for a page and returns it and how long it took. Pages that say that nothing
// can be shown, by a 4xx, are pages as well.
func (v *pagesVisit) get(ctx context.Context, path string) (string, int, time.Duration, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, v.url+path, nil)
	if err != nil {
		return "", 0, 0, err
	}
	started := time.Now()
	resp, err := v.client.Do(req)
	if err != nil {
		return "", 0, 0, err
	}
	body, err := io.ReadAll(resp.Body)
	took := time.Since(started)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return "", 0, 0, err
	}
	if resp.StatusCode >= 300 && resp.StatusCode < 400 {
		return "", 0, 0, fmt.Errorf("%s: %d to %s", path, resp.StatusCode, resp.Header.Get("Location"))
	}
	return string(body), resp.StatusCode, took, nil
}

var (
	pageLink   = regexp.MustCompile(`href="(/admin[^"#]*)"`)
	pageSelect = regexp.MustCompile(`(?s)<select id="f-[^"]*" name="([^"]*)">(.*?)</select>`)
	pageOption = regexp.MustCompile(`<option value="([^"]+)"`)
	pageFilter = regexp.MustCompile(`(?s)<form class="filter" method="get".*?</form>`)
	pageID     = regexp.MustCompile(`/([0-9a-f]{8}-[0-9a-f-]{27}|[0-9]+)(/|$)`)
	pageTable  = regexp.MustCompile(`^/admin/database/tables/[^/]+`)
)

// pageKind is an address without what differs from one to the next of its kind: ids, and
// the values of parameters but for those that choose among a few.
func pageKind(address string) string {
	path, query, _ := strings.Cut(address, "?")
	path = pageTable.ReplaceAllString(pageID.ReplaceAllString(path, "/{id}$2"), "/admin/database/tables/{table}")
	values, err := url.ParseQuery(query)
	if err != nil || len(values) == 0 {
		return path
	}
	var names []string
	for name, list := range values {
		switch {
		case strings.HasPrefix(name, "f.") || !slices.Contains([]string{"status", "state", "sort", "period", "by", "range", "active", "role", "reason"}, name) || strings.Contains(path, "{table}"):
			names = append(names, name)
		default:
			names = append(names, name+"="+list[0])
		}
	}
	slices.Sort(names)
	return path + "?" + strings.Join(names, "&")
}

// unlimited reports whether nothing is promised of a kind: a question about events with a
// filter reads them, and a table is sorted and compared by columns without an index too.
func unlimited(kind string) bool {
	return strings.Contains(kind, "?f.") || strings.Contains(kind, "{table}?")
}

// add takes note of an address, unless there are enough of its kind, and reports whether
// its kind is new.
func (v *pagesVisit) add(address string) (isNew bool) {
	kind := pageKind(address)
	list := v.asked[kind]
	if len(list) >= pagesAlike || slices.Contains(list, address) {
		return false
	}
	if len(list) == 0 {
		v.kinds = append(v.kinds, kind)
	}
	v.asked[kind] = append(list, address)
	return len(list) == 0
}

// walk finds the pages: from the first one along links, through one page of each kind, and
// for each filter that chooses among a few every choice.
func (v *pagesVisit) walk(ctx context.Context) error {
	v.add("/admin")
	for waiting := []string{"/admin"}; len(waiting) > 0; waiting = waiting[1:] {
		at := waiting[0]
		body, _, _, err := v.get(ctx, at)
		if err != nil {
			return err
		}
		path, query, _ := strings.Cut(at, "?")
		var found []string
		for _, m := range pageLink.FindAllStringSubmatch(body, -1) {
			link := html.UnescapeString(m[1])
			if !strings.HasPrefix(link, "/admin/assets") && !strings.HasSuffix(link, "/csv") && !strings.Contains(link, "/csv?") && !strings.HasSuffix(link, "/sign-out") {
				found = append(found, link)
			}
		}
		if query == "" {
			for _, m := range pageSelect.FindAllStringSubmatch(pageFilter.FindString(body), -1) {
				for _, o := range pageOption.FindAllStringSubmatch(m[2], -1) {
					found = append(found, path+"?"+url.Values{m[1]: {html.UnescapeString(o[1])}}.Encode())
				}
			}
		}
		for _, link := range found {
			// What a filtered page leads to is the same narrowed further.
			if strings.Count(link, "&") > 1 || query != "" && strings.Contains(link, "?") && !strings.Contains(link, "cursor=") {
				continue
			}
			if v.add(link) {
				waiting = append(waiting, link)
			}
		}
	}
	return nil
}

// addQuestions adds what no link leads to: what is typed into filters, and positions deep
// in a list.
func (w *world) addQuestions(ctx context.Context, v *pagesVisit, f filled) error {
	for _, list := range []struct{ path, queries string }{
		{"/webhooks", "provider=payment provider=codehost provider=modern provider=quiet provider=never status=pending&provider=payment status=pending&provider=codehost status=pending&provider=modern " +
			"status=pending&provider=quiet status=pending&provider=never status=failed&provider=payment status=failed&provider=codehost status=failed&provider=modern status=failed&provider=quiet " +
			"status=processed&provider=acme status=processed&provider=quiet event_type=push event_type=order.lost event_type=never.had provider=payment&event_type=payment.failed provider=payment&event_type=push " +
			"provider=modern&event_type=never.had provider=acme&event_type=order.lost status=failed&event_type=order.lost status=failed&event_type=push status=pending&event_type=thing.made status=pending&event_type=push external_id=evt_1000 external_id=none " +
			"provider=codehost&external_id=evt_1000 status=failed&provider=payment&event_type=payment.failed status=pending&provider=acme&event_type=order.lost"},
		{"/webhooks/rejected", "provider=payment provider=none provider=payment&reason=signature_mismatch provider=payment&reason=unknown_provider"},
		{"/jobs", "kind=mails.send kind=none queue=bench queue=default queue=none kind=mails.send&state=discarded kind=none&state=available queue=default&state=available queue=bench&state=completed"},
		{"/mails", "to=person500@example.com to=none@example.com status=failed&to=person500@example.com"},
		{"/users", "q=family77 q=person500@example.com q=nobody q=e role=EDITOR&active=no role=ADMIN&active=no"},
		{"/audit", "actor_id=3 actor_id=none action=bench-mails action=none table=users table=none table=users&row_id=77 row_id=77 row_id=none request_id=3-1 request_id=none actor_type=user&action=bench-mails actor_type=job&action=bench-mails actor_type=cli&table=users actor_type=anonymous&table=mails"},
	} {
		for q := range strings.FieldsSeq(list.queries) {
			name := "/admin" + list.path + "?" + q
			v.kinds = append(v.kinds, name)
			v.asked[name] = []string{name}
		}
	}
	if err := w.addDepths(ctx, v); err != nil {
		return err
	}
	for _, name := range []string{"webhook_events", "users", "events", "audit_log", "river_job", "mails", "uploads", "auth_sessions"} {
		at := "/admin/database/tables/" + name
		v.named("the rows of "+name, at)
		for n := range pagesAlike {
			v.named("the rows of "+name+", deep", at+"?cursor="+page.Encode(map[string]int{"o": 100 + n*160}))
		}
		v.named("the structure of "+name, at+"/structure")
	}
	for name, column := range map[string]string{"webhook_events": "-created_at", "users": "email_key", "mails": "created_at", "uploads": "key", "audit_log": "seq", "river_job": "id"} {
		v.named("the rows of "+name+" by "+column, "/admin/database/tables/"+name+"?sort="+column)
	}
	for _, s := range f.Sites {
		at := "/admin/stats/" + s.ID.String()
		for _, period := range []string{"today", "7d", "30d", "12mo"} {
			v.named(fmt.Sprintf("a site of %d events, %s", s.Events, period), at+"?period="+period)
		}
		for n := range pagesAlike {
			from, to := f.At.AddDate(0, 0, -30-n*5), f.At.AddDate(0, 0, -n*5)
			v.named(fmt.Sprintf("a site of %d events, some 30 days", s.Events), at+"?from="+from.Format(time.DateOnly)+"&to="+to.Format(time.DateOnly))
			v.named(fmt.Sprintf("a site of %d events, 300 days and some", s.Events), at+"?from="+f.At.AddDate(0, 0, -300-n).Format(time.DateOnly)+"&to="+f.At.Format(time.DateOnly))
		}
	}
	return nil
}

// named adds an address to a kind of its own.
func (v *pagesVisit) named(kind, address string) {
	if len(v.asked[kind]) == 0 {
		v.kinds = append(v.kinds, kind)
	}
	v.asked[kind] = append(v.asked[kind], address)
}

// addDepths adds cursors from all over the long lists.
func (w *world) addDepths(ctx context.Context, v *pagesVisit) error {
	type place struct {
		T time.Time `json:"t"`
		I uuid.UUID `json:"i"`
	}
	rows, err := w.owner.Query(ctx, `select created_at, id, (row_number() over (order by created_at))::bigint from webhook_events order by created_at`)
	if err != nil {
		return err
	}
	defer rows.Close()
	var at place
	var n int64
	for rows.Next() {
		if err := rows.Scan(&at.T, &at.I, &n); err != nil {
			return err
		}
		if n%int64(max(1, w.deliveries/pagesAlike)) != 1 {
			continue
		}
		v.named("a delivery, old or new", "/admin/webhooks/"+at.I.String())
		cursor := "cursor=" + page.Encode(at)
		v.named("deliveries, deep", "/admin/webhooks?"+cursor)
		for _, q := range []string{"status=failed", "status=pending", "status=processed", "provider=quiet", "provider=payment&status=failed", "provider=modern&event_type=never.had"} {
			v.named("deliveries with "+q+", deep", "/admin/webhooks?"+q+"&"+cursor)
		}
		number := page.Encode(map[string]int64{"b": n / 10})
		v.named("jobs, deep", "/admin/jobs?cursor="+number)
		v.named("discarded jobs, deep", "/admin/jobs?state=discarded&cursor="+number)
		v.named("mails, deep", "/admin/mails?cursor="+number)
		v.named("failed mails, deep", "/admin/mails?status=failed&cursor="+number)
		v.named("audit entries, deep", "/admin/audit?cursor="+page.Encode(map[string]int64{"b": n / 4}))
		v.named("an account", fmt.Sprintf("/admin/users/%d", 1+n/10))
		v.named("an audit entry", fmt.Sprintf("/admin/audit/%d", 1+n/4))
		v.named("accounts by e-mail, deep", "/admin/users?sort=email&cursor="+page.Encode(page.Position{Sort: "email", Value: fmt.Sprintf("person%d@example.com", n/10), ID: n / 10}))
		v.named("accounts, deep", "/admin/users?cursor="+page.Encode(page.Position{Sort: page.NewestFirst, Value: page.Time(at.T), ID: n / 10}))
	}
	return rows.Err()
}

// timePages asks for all pages in turns, so that no two questions in a row are alike.
func (w *world) timePages(ctx context.Context, v *pagesVisit) error {
	times, statuses := map[string][]time.Duration{}, map[string]int{}
	for round := range w.requests + pagesWarmups {
		for _, kind := range v.kinds {
			if len(times[kind]) >= 5 && median(times[kind]) > 20*pagesLimit {
				continue // it is told, and need not be endured
			}
			list := v.asked[kind]
			_, status, took, err := v.get(ctx, list[round%len(list)])
			if err != nil {
				return err
			}
			statuses[kind] = max(statuses[kind], status)
			if round >= pagesWarmups {
				times[kind] = append(times[kind], took)
			}
		}
	}
	fmt.Printf("   %-90s %9s %9s %9s  status  p50 <= %v\n", "page", "addresses", "p50", "p99", pagesLimit)
	missed := 0
	for _, kind := range v.kinds {
		took := slices.Sorted(slices.Values(times[kind]))
		said := verdict(median(took) <= pagesLimit)
		switch {
		case unlimited(kind):
			said = "(nothing is promised)"
		case median(took) > pagesLimit:
			missed++
		}
		fmt.Printf("   %-90s %9d %9v %9v  %6d  %s\n", kind, len(v.asked[kind]), round(median(took)), round(took[len(took)*99/100]), statuses[kind], said)
	}
	fmt.Printf("   %d kinds of pages, %d of them slower than the limit\n", len(v.kinds), missed)
	return nil
}

// saySizes prints what a million of the largest things take on disk, indexes included.
func (w *world) saySizes(ctx context.Context) error {
	for _, of := range []struct{ what, tables, count string }{
		{"deliveries of some 400 bytes", `'webhook_events', 'webhook_attempts'`, `select count(*) from webhook_events`},
		{"events of visitors", `'events', 'sessions', 'session_heads'`, `select count(*) from events`},
		{"events of visitors, summed up for good", `'rollup_days', 'rollup_hours', 'rollup_counts', 'rollup_labels', 'rollup_blocks', 'rollup_visitors'`, `select count(*) from events`},
		{"audit entries", `'audit_log', 'audit_tree'`, `select count(*) from audit_log`},
		{"mails", `'mails'`, `select count(*) from mails`},
		{"accounts", `'users'`, `select count(*) from users`},
		{"files, without their bytes", `'uploads'`, `select count(*) from uploads`},
		{"jobs", `'river_job'`, `select count(*) from river_job`},
		{"minutes of a process", `'telemetry_minutes'`, `select count(*) from telemetry_minutes`},
	} {
		var bytes, n int64
		if err := w.owner.QueryRow(ctx, of.count).Scan(&n); err != nil {
			return err
		}
		err := w.owner.QueryRow(ctx, `select sum(pg_total_relation_size(p.relid))::bigint from unnest(array[`+of.tables+`]) t (name),
			lateral (select t.name::regclass as relid union select relid from pg_partition_tree(t.name::regclass)) p`).Scan(&bytes)
		if err != nil {
			return err
		}
		fmt.Printf("   %10d %-40s %6d MiB, %4d MiB a million\n", n, of.what, bytes>>20, bytes*1_000_000/max(n, 1)>>20)
	}
	return nil
}
