package e2e_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/e2e/outside"
)

func TestCase51And52TheDatabasePagesShowWhatIsNoSecret(t *testing.T) {
	t.Parallel()
	urls := dbtest.NewURL(t)
	p := startServe(t, urls.App, "WAYPOST_DATABASE_VIEWER_URL="+urls.Viewer)
	bearer := admin(t, p, urls.App)
	v := &visitor{t: t, url: p.url}
	v.want(v.signIn("root@example.com", outside.Password), 303, "/admin")
	query := func(sql, explain string) outside.Answer {
		return v.ask("POST", "/admin/database/console/query", url.Values{"query": {sql}, "explain": {explain}}.Encode())
	}
	const script = "<script>alert(1)</script>"

	users := v.ask("GET", "/admin/database/tables/users", "")
	v.want(users, 200, "root@example.com")
	if strings.Contains(string(users.Body), "argon2id") || strings.Contains(string(users.Body), "password_hash") {
		t.Errorf("%s", users.Body)
	}
	v.want(v.ask("GET", "/admin/database/tables/users/structure", ""), 200, "password_hash")
	v.want(v.ask("GET", "/admin/database/tables/users?column=email&operator=contains&value=ROOT&sort=-email", ""), 200, "root@example.com")
	v.want(v.ask("GET", "/admin/database/tables/users?column=email&value="+url.QueryEscape("' or true --"), ""), 200, "No rows")
	v.want(v.ask("GET", "/admin/database/tables/users?sort="+url.QueryEscape("id; drop table users"), ""), 422, "no such column")
	v.want(v.ask("GET", "/admin/database/tables/"+url.PathEscape(`users" --`), ""), 404, "There is no such page")
	v.want(v.ask("GET", "/admin/database/tables/users?cursor=eyJvIjotMX0", ""), 422, "10,000 rows")

	v.want(query("select email, '' as empty, null as nothing from users", ""), 200, "<code>&#39;&#39;</code>")
	v.want(query("select id from users", "plan"), 200, "Scan")
	v.want(query("select password_hash from users", ""), 422, "permission denied for table users")
	v.want(query("commit; drop table users", ""), 422, "cannot insert multiple commands")
	v.want(query("select pg_advisory_lock(1)", ""), 422, "names pg_advisory_lock")
	v.want(query("", ""), 422, "Write a statement.")
	v.want(query("select 1", "nix"), 422, "Choose one of the buttons.")
	for sql, status := range map[string]int{"select '" + script + "' as \"" + script + "\"": 200, "select \"" + script + "\"": 422, script: 422} {
		if a := query(sql, ""); a.Status != status || strings.Contains(string(a.Body), script) || !strings.Contains(string(a.Body), "&lt;script&gt;alert(1)") {
			t.Errorf("%s: %d %s", sql, a.Status, a.Body)
		}
	}
	v.want(v.ask("POST", "/admin/database/console/query", "query=select+1", "Sec-Fetch-Site", "cross-site"), 403, "sent from another site")

	p.waitFor(t, "the uses in the audit log", func() bool {
		said := string(outside.Do(t, "GET", p.url+"/api/admin/audit?action=query-database&limit=100", "", "Authorization", "Bearer "+bearer).Body) +
			string(outside.Do(t, "GET", p.url+"/api/admin/audit?action=view-database&limit=100", "", "Authorization", "Bearer "+bearer).Body)
		return strings.Contains(said, "drop table users") && strings.Contains(said, "select password_hash from users") && strings.Contains(said, `\"page\": \"structure\"`)
	})

	off := startServe(t, urls.App)
	w := &visitor{t: t, url: off.url}
	w.want(w.signIn("root@example.com", outside.Password), 303, "/admin")
	page := w.ask("GET", "/admin/database/console", "")
	w.want(page, 200, "ALTER ROLE waypost_viewer LOGIN PASSWORD")
	w.want(page, 200, "SELECT grant_viewer();")
	w.want(w.ask("POST", "/admin/database/console/query", "query=select+1"), 409, "The console is off")
	w.want(w.ask("GET", "/admin/database/tables/users", ""), 200, "root@example.com")
}

func TestTheConsolesConnectionIsOneOfThoseThatMayBe(t *testing.T) {
	t.Parallel()
	urls := dbtest.NewURL(t)
	p := start(t, append(serveSettings(urls.App), "WAYPOST_DATABASE_VIEWER_URL="+urls.Viewer, fmt.Sprint("WAYPOST_DATABASE_MAX_CONNS=", db.LeastConns())), "serve", "--addr", "127.0.0.1:0")
	select {
	case <-p.exited:
	case <-time.After(outside.Patience):
		t.Fatal("it runs")
	}
	if said := p.stderr.String(); p.err == nil || !strings.Contains(said, fmt.Sprintf("give %d or more", db.LeastConns()+1)) {
		t.Errorf("it ended with %v and said %s", p.err, said)
	}
}

// dev has a console without being told anything.
func TestDevMakesTheConsolesRole(t *testing.T) {
	t.Parallel()
	dir := dbtest.TempDir(t)
	p := startDev(t, dir)
	env := devValues(t, dir)
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	post := func(path string, form url.Values, cookie string) outside.Answer {
		return outside.Exchange(t, client, "POST", p.url+path, form.Encode(), "Content-Type", "application/x-www-form-urlencoded", "Cookie", cookie)
	}
	in := post("/admin/sign-in", url.Values{"email": {env["WAYPOST_ADMIN_EMAIL"]}, "password": {env["WAYPOST_ADMIN_PASSWORD"]}}, "")
	cookie, _, _ := strings.Cut(in.Header.Get("Set-Cookie"), ";")
	if a := post("/admin/database/console/query", url.Values{"query": {"select session_user"}}, cookie); a.Status != 200 || !strings.Contains(string(a.Body), "<td>waypost_viewer") {
		t.Errorf("%d %s", a.Status, a.Body)
	}
}
