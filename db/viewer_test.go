package db_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbtest"
)

// A migration that makes a table or a column says with show_columns whether the database
// page may show it. Until then it is hidden; this test reminds of it.
func TestEveryColumnIsEitherShownOrHidden(t *testing.T) {
	t.Parallel()
	urls := dbtest.NewURL(t)
	undecided := column(t, urls.Owner, `select format('%s.%s', c.relname, a.attname)
		from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
		left join visible_columns v on v.table_name = c.relname
		where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
		  and (v.table_name is null or not a.attname = any (v.shown || v.hidden)) order by 1`)
	if len(undecided) > 0 {
		t.Errorf("call show_columns in the migration that makes these columns: %s", strings.Join(undecided, ", "))
	}
	unknown := column(t, urls.Owner, `select format('%s.%s', v.table_name, c) from visible_columns v, unnest(v.shown || v.hidden) c
		where not exists (select from pg_attribute a where a.attrelid = to_regclass(quote_ident(v.table_name)) and a.attname = c) order by 1`)
	if len(unknown) > 0 {
		t.Errorf("visible_columns names columns that don't exist: %s", strings.Join(unknown, ", "))
	}
}

func TestWhatTheAuditLogRedactsIsNotShown(t *testing.T) {
	t.Parallel()
	d, urls := dbtest.NewWithURL(t)
	if err := d.CheckAudited(t.Context()); err != nil {
		t.Fatal(err)
	}
	psql(t, urls.Owner, `select show_columns('users', '{password_hash}')`)
	if err := d.CheckAudited(t.Context()); err == nil || !strings.Contains(err.Error(), "users: visible_columns shows what its trigger audit_row redacts") {
		t.Errorf("%v", err)
	}
}

func TestNobodyButTheApplicationCallsOurFunctions(t *testing.T) {
	t.Parallel()
	urls := dbtest.NewURL(t)
	open := column(t, urls.Owner, `select p.oid::regprocedure::text from pg_proc p
		where p.pronamespace = 'public'::regnamespace and p.proname not like 'river\_%'
		  and (has_function_privilege('public', p.oid, 'execute') or has_function_privilege('waypost_viewer', p.oid, 'execute')) order by 1`)
	if len(open) > 0 {
		t.Errorf("revoke execute on these functions from public in their migration: %s", strings.Join(open, ", "))
	}
}

func TestAnUpgradeMakesTheConsolesRole(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	psql(t, server.AdminURL("postgres"), `drop role waypost_viewer`, `create database shop`)
	admin := server.AdminURL("shop")
	with := db.UpgradeOptions{OwnerURL: admin, ViewerURL: strings.Replace(server.ViewerURL("shop"), "waypost_viewer@", "waypost_viewer:pencil@", 1)}
	if _, err := db.Upgrade(t.Context(), with); err != nil {
		t.Fatal(err)
	}
	if got := column(t, server.AdminURL("postgres"), `select substr(rolpassword, 1, 19) from pg_authid where rolname = 'waypost_viewer' and rolcanlogin`); !cmp.Equal(got, []string{"SCRAM-SHA-256$4096:"}) {
		t.Errorf("%q", got)
	}
	if got := column(t, server.ViewerURL("shop"), `select count(email)::text from users`); !cmp.Equal(got, []string{"0"}) {
		t.Errorf("%q", got)
	}
	// A new server, onto which the database was restored, lacks the role.
	psql(t, admin, `drop owned by waypost_viewer`, `drop role waypost_viewer`)
	done, err := db.Upgrade(t.Context(), with)
	if err != nil || !slices.Contains(done.Restored, "create role waypost_viewer login") || strings.Contains(strings.Join(done.Restored, ";"), "SCRAM") {
		t.Errorf("%+v, %v", done, err)
	}
	if current, err := db.IsCurrent(t.Context(), admin); !current || err != nil {
		t.Errorf("%t, %v", current, err)
	}
}

// The example of RFC 7677, section 3.
func TestThePasswordIsStoredAsPostgreSQLStoresIt(t *testing.T) {
	t.Parallel()
	salt, err := base64.StdEncoding.DecodeString("W22ZaJ0SNY7soEsUEjb6gQ==")
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := db.SCRAMVerifier("pencil", salt)
	if err != nil {
		t.Fatal(err)
	}
	head, keys, _ := strings.Cut(strings.TrimPrefix(verifier, "SCRAM-SHA-256$"), "$")
	_, server, _ := strings.Cut(keys, ":")
	key, err := base64.StdEncoding.DecodeString(server)
	if head != "4096:W22ZaJ0SNY7soEsUEjb6gQ==" || err != nil {
		t.Fatalf("%s, %v", verifier, err)
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("n=user,r=rOprNGfwEbeRWgbNEkqO,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"))
	if got := base64.StdEncoding.EncodeToString(mac.Sum(nil)); got != "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=" {
		t.Errorf("server signature %s", got)
	}
}
