package db_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db/dbtest"
)

// migration reads the two directions of one.
func migration(t *testing.T, file string) (up, down string) {
	t.Helper()
	text, err := os.ReadFile("migrations/" + file)
	if err != nil {
		t.Fatal(err)
	}
	up, down, found := strings.Cut(string(text), "-- +goose Down")
	if !found {
		t.Fatalf("%s has no way down", file)
	}
	return up, down
}

// inOne runs statements in one transaction, as migrations are.
func inOne(t *testing.T, url, statements string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	if _, err := conn.PgConn().Exec(t.Context(), statements).ReadAll(); err != nil {
		t.Fatal(err)
	}
}

// An upgrade takes nobody's home away, and leaves each account its fifty newest sessions.
func TestAnUpgradeKeepsHomesAndTheNewestSessions(t *testing.T) {
	t.Parallel()
	_, urls := dbtest.NewWithURL(t)
	up, down := migration(t, "00023_sign_in_limits.sql")
	inOne(t, urls.Owner, down)
	const actor = `set waypost.actor_type = 'system'; set waypost.action = 'test';`
	inOne(t, urls.Owner, actor+`
		insert into users (first_name, last_name, email, email_key, password_hash, created_at, updated_at)
		select 'Ada', 'Lovelace', n || '@example.com', n || '@example.com', '', now(), now() from unnest(array['bot', 'ada']) n;
		insert into auth_sessions (id, user_id, created_at, expires_at, authenticated_at, last_used_at, user_agent)
		select gen_random_uuid(), u.id, now() - make_interval(mins => i), now() + interval '1 day', now(), now(), i::text
		from users u, generate_series(1, 60) i where u.email = 'bot@example.com'`)
	for i, address := range []string{"203.0.113.7", "203.0.113.7", "2001:db8:1:2:3:4:5:6", "2001:db8:1:2::9", "fe80::1%eth0", "", "no address"} {
		inOne(t, urls.Owner, actor+fmt.Sprintf(`
			insert into auth_sessions (id, user_id, created_at, expires_at, authenticated_at, last_used_at, address)
			select gen_random_uuid(), id, now() - make_interval(days => %d), now() + interval '1 day', now(), now(), '%s' from users where email = 'ada@example.com'`, i, address))
	}
	inOne(t, urls.Owner, up)
	homes := column(t, urls.Owner, `select network || ' ' || date_trunc('day', age(now(), seen_at)) from sign_in_networks order by network`)
	if diff := cmp.Diff([]string{"203.0.113.7/32 00:00:00", "2001:db8:1:2::/64 2 days", "fe80::/64 4 days"}, homes); diff != "" {
		t.Error(diff)
	}
	for email, want := range map[string]string{"bot@example.com": "50 of 60, the oldest is the 50th", "ada@example.com": "7 of 7, the oldest is the 0th"} {
		got := column(t, urls.Owner, `select count(*) filter (where revoked_at is null) || ' of ' || count(*) || ', the oldest is the ' ||
			coalesce(max(nullif(user_agent, '')::int) filter (where revoked_at is null), 0) || 'th'
			from auth_sessions s join users u on u.id = s.user_id where u.email = '`+email+`'`)
		if diff := cmp.Diff([]string{want}, got); diff != "" {
			t.Errorf("%s: %s", email, diff)
		}
	}
	if n := column(t, urls.Owner, `select count(*)::text from audit_pending where action = 'system:migration 23'`); n[0] != "10" {
		t.Errorf("%s entries of the audit log", n[0])
	}
}
