package upload_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/internal/blob"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/queue"
	"github.com/waypost/waypost/internal/upload"
)

const secretKey = "a secret key for tests, longer than 32 bytes"

// fixture is a service with a directory, two accounts and a clock.
type fixture struct {
	*upload.Service
	t      *testing.T
	o      upload.Options
	db     *db.DB
	store  blob.Store
	owners [2]int64
	clock  *clock
	mu     sync.Mutex
	// crashAt is where the work ends as if the process were gone; do is called there first.
	crashAt upload.Boundary
	do      func()
}

type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) read() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

var errCrash = errors.New("crash")

func newFixture(t *testing.T, change ...func(*upload.Options)) *fixture {
	t.Helper()
	f := &fixture{t: t, db: dbtest.New(t), clock: &clock{now: time.Now()}}
	store, err := blob.NewLocal(blob.LocalOptions{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	f.store = store
	jobs, err := queue.New(slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	for i := range f.owners {
		err := f.db.Single(identity.System("test")).QueryRow(t.Context(), `insert into users (first_name, last_name, email, email_key, password_hash, created_at, updated_at)
			values ('Ada', 'Lovelace', $1, $1, '', now(), now()) returning id`, fmt.Sprintf("owner%d@example.com", i)).Scan(&f.owners[i])
		if err != nil {
			t.Fatal(err)
		}
	}
	f.o = upload.Options{
		DB: f.db, Store: store, Jobs: jobs, Limit: 1 << 20, Quota: 4 << 20, BaseURL: "https://waypost.example",
		SecretKey: []byte(secretKey), Now: f.clock.read,
		Interrupt: func(b upload.Boundary) error {
			f.mu.Lock()
			defer f.mu.Unlock()
			if b != f.crashAt {
				return nil
			}
			if f.do != nil {
				f.do()
				return nil
			}
			return errCrash
		},
	}
	for _, c := range change {
		c(&f.o)
	}
	f.Service = f.another()
	return f
}

// another is another process with the same settings, but for what change changes.
func (f *fixture) another(change ...func(*upload.Options)) *upload.Service {
	f.t.Helper()
	o := f.o
	for _, c := range change {
		c(&o)
	}
	s, err := upload.New(f.t.Context(), o)
	if err != nil {
		f.t.Fatal(err)
	}
	return s
}

// at makes the next work end, or call do, at a boundary.
func (f *fixture) at(b upload.Boundary, do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.crashAt, f.do = b, do
}

// as is a context of an account's holder.
func (f *fixture) as(owner int) context.Context {
	p := identity.Account(f.owners[owner], identity.User, "").Doing("test")
	return identity.NewContext(f.t.Context(), p)
}

// send uploads a text of the first account.
func (f *fixture) send(content string) (upload.Upload, error) {
	return f.sendAs(0, upload.File{Filename: "notes.txt", ContentType: "text/plain", Expected: int64(len(content))}, content)
}

func (f *fixture) sendAs(owner int, file upload.File, content string) (upload.Upload, error) {
	return f.Create(f.as(owner), file, bytes.NewReader([]byte(content)))
}

func (f *fixture) mustSend(content string) upload.Upload {
	f.t.Helper()
	u, err := f.send(content)
	if err != nil {
		f.t.Fatal(err)
	}
	return u
}

// read is what the first account reads of a file.
func (f *fixture) read(s *upload.Service, id int64) (string, error) {
	c, err := s.Open(f.as(0), id, "")
	if err != nil {
		return "", err
	}
	defer c.Close()
	b, err := io.ReadAll(c.Object)
	return string(b), err
}

// keys are of all bytes that the store has, without the marker of whose they are.
func (f *fixture) keys() []string {
	f.t.Helper()
	var keys []string
	for info, err := range f.store.List(f.t.Context(), "") {
		if err != nil {
			f.t.Fatal(err)
		}
		if info.Size > 0 && !bytes.HasSuffix([]byte(info.Key), []byte("/owner")) {
			keys = append(keys, info.Key)
		}
	}
	return keys
}

// value is a number that a query of the database gives.
func (f *fixture) value(sql string, args ...any) int64 {
	f.t.Helper()
	var n int64
	if err := f.db.Direct().QueryRow(f.t.Context(), sql, args...).Scan(&n); err != nil {
		f.t.Fatal(err)
	}
	return n
}

// exec changes the database behind the service's back.
func (f *fixture) exec(sql string, args ...any) {
	f.t.Helper()
	if _, err := f.db.Single(identity.System("test")).Exec(f.t.Context(), sql, args...); err != nil {
		f.t.Error(err)
	}
}

// used is what an account's files take of its quota.
func (f *fixture) used() int64 {
	return f.value(`select coalesce((select bytes from upload_usage where owner_id = $1), 0)`, f.owners[0])
}

// sweepLater sweeps when everything that is left is old enough.
func (f *fixture) sweepLater() {
	f.t.Helper()
	f.clock.advance(100 * time.Hour)
	if _, err := f.Sweep(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
}

// wantClean fails unless there are just so many ready files, with their bytes, and
// nothing else.
func (f *fixture) wantClean(files int) {
	f.t.Helper()
	rows, pending := f.value(`select count(*) from uploads`), f.value(`select count(*) from uploads where status = 'pending'`)
	if rows != int64(files) || pending != 0 {
		f.t.Errorf("%d rows, of which %d are pending; want %d", rows, pending, files)
	}
	if keys := f.keys(); len(keys) != files {
		f.t.Errorf("the store has %d objects, want %d: %v", len(keys), files, keys)
	}
	if held, used := f.value(`select coalesce(sum(held), 0)::bigint from uploads where owner_id = $1`, f.owners[0]), f.used(); held != used {
		f.t.Errorf("%d bytes are counted, the rows hold %d", used, held)
	}
}
