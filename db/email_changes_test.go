package db_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waypost/waypost/db/dbtest"
)

// Whom an upgrade takes as verified, and whose second factor may be a stranger's.
func TestAccountsFromBeforeTheProofAreToldApart(t *testing.T) {
	t.Parallel()
	up, down := migration(t, "00024_email_changes.sql")
	for name, tc := range map[string]struct {
		before string
		want   []string
	}{
		"an installation": {``, []string{"admin verified", "invited no", "user no, unproven factor", "verified verified"}},
		"a developer's":   {`update installation set dev_since = now()`, []string{"admin verified", "invited no", "user verified", "verified verified"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, urls := dbtest.NewWithURL(t)
			psql(t, urls.Owner, `set waypost.actor_type = 'cli'; set waypost.action = 'cli:test';`+down+`;
				insert into users (first_name, last_name, email, email_key, password_hash, role, email_verified_at, created_at, updated_at) values
					('admin', 'Last', 'a@x', 'a@x', 'hash', 'ADMIN', null, now(), now()), ('invited', 'Last', 'i@x', 'i@x', '', 'ADMIN', null, now(), now()),
					('user', 'Last', 'u@x', 'u@x', 'hash', 'USER', null, now(), now()), ('verified', 'Last', 'v@x', 'v@x', 'hash', 'USER', now(), now(), now());
				insert into totp_factors (user_id, secret, secret_key_id, created_at, confirmed_at) select id, '', '', now(), now() from users where password_hash <> '';
				`+tc.before)
			inOne(t, urls.Owner, up)
			got := column(t, urls.Owner, `select first_name || ' ' || case when email_verified_at is null then 'no' else 'verified' end
				|| case when f.unproven then ', unproven factor' else '' end from users left join totp_factors f on f.user_id = users.id order by first_name`)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
