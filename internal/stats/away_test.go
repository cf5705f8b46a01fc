package stats

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/site"
)

// newBenchWithServers is a bench whose database says that it is sharded, with the site of
// the bench on a server that is away while the returned function has been told so: all
// that asks for its rows is refused as Citus refuses it.
func newBenchWithServers(t *testing.T) (*bench, func(away bool)) {
	t.Helper()
	urls := dbtest.NewURL(t)
	dbtest.Shard(t, urls)
	d, err := db.Open(t.Context(), db.Options{URL: urls.App, MaxConns: 8})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	b := newBenchOn(t, d, "UTC", reportedNow)
	admin, err := pgx.Connect(t.Context(), urls.Admin)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = admin.Close(context.Background()) })
	run := func(sql string) {
		t.Helper()
		if _, err := admin.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	run(fmt.Sprintf(`create function is_reached(site uuid) returns boolean language plpgsql as $$
begin
	if site = '%s' then
		raise exception using errcode = '08006', message = 'connection to the remote node failed';
	end if;
	return true;
end $$`, b.site.ID))
	for _, table := range []string{"site_days", "session_heads"} {
		run(`create policy reached on ` + table + ` using (is_reached(site_id))`)
	}
	return b, func(away bool) {
		t.Helper()
		verb := "disable"
		if away {
			verb = "enable"
		}
		for _, table := range []string{"site_days", "session_heads"} {
			run(`alter table ` + table + ` ` + verb + ` row level security`)
		}
	}
}

func (b *bench) anotherSite() site.Site {
	b.t.Helper()
	s, err := b.sites.Create(b.t.Context(), "Another", "example.com", "UTC")
	if err != nil {
		b.t.Fatal(err)
	}
	return s
}

func TestAServerThatIsAwayKeepsNoOtherSiteFromBeingFolded(t *testing.T) {
	t.Parallel()
	b, setAway := newBenchWithServers(t)
	other := b.anotherSite()
	b.collectTogether("away ", b.site, other)
	stale := func(s site.Site) int {
		return b.int(`select count(*) from session_heads where stale and site_id = $1`, s.ID)
	}
	if stale(b.site) == 0 || stale(other) == 0 {
		t.Fatal("nothing is to be folded")
	}
	r := b.rollups(RollupsOptions{})
	setAway(true)
	n, err := r.FoldBusy(t.Context())
	if fault.KindOf(err) != fault.Unavailable || n == 0 {
		t.Errorf("while a server is away, %d visitors are folded, and the error is %v", n, err)
	}
	if n := stale(other); n != 0 {
		t.Errorf("%d visitors of a site that can be reached were not folded", n)
	}
	setAway(false)
	if _, err := r.FoldBusy(t.Context()); err != nil || stale(b.site) != 0 {
		t.Errorf("when the server is back, %d visitors of its site stay: %v", stale(b.site), err)
	}
}

func TestAServerThatIsAwayKeepsNoOtherSitesSaltsFromBeingDestroyed(t *testing.T) {
	t.Parallel()
	b, setAway := newBenchWithServers(t)
	other := b.anotherSite()
	b.collectTogether("salted ", b.site, other)
	salted := func(s site.Site) int {
		return b.int(`select count(*) from site_days where salt_box is not null and site_id = $1`, s.ID)
	}
	b.clock.set(reportedNow.Add(5 * 24 * time.Hour))
	setAway(true)
	n, err := b.ingester.DestroySalts(t.Context())
	if fault.KindOf(err) != fault.Unavailable || n != 1 || salted(other) != 0 {
		t.Errorf("while a server is away, %d salts are destroyed, %d of a site that can be reached are left, and the error is %v", n, salted(other), err)
	}
	setAway(false)
	if n, err := b.ingester.DestroySalts(t.Context()); n != 1 || err != nil || salted(b.site) != 0 {
		t.Errorf("when the server is back, %d salts are destroyed: %v", n, err)
	}
}
