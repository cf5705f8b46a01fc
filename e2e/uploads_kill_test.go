package e2e_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/db/embedded"
	"github.com/waypost/waypost/e2e/outside"
)

// senders upload files to whichever process answers, and keep what was answered 201.
type senders struct {
	mu       sync.Mutex
	url      string
	token    string
	answered map[string]string // checksums by id
}

func (s *senders) to(url string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.url = url
}

// send uploads one text of any length.
func (s *senders) send() {
	s.mu.Lock()
	url := s.url
	s.mu.Unlock()
	content := bytes.Repeat([]byte(fmt.Sprintf("%d notes on the engine. ", rand.Uint64())), 1+rand.N(8000))
	body, header := outside.Form("text/plain", string(content))
	ctx, cancel := context.WithTimeout(context.Background(), outside.Patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/api/uploads", bytes.NewReader(body))
	if err != nil {
		return
	}
	r.Header.Set(header[0], header[1])
	r.Header.Set("Authorization", "Bearer "+s.token)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		<-time.After(5 * time.Millisecond) // the process is gone for the moment
		return
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusCreated {
		return
	}
	sum := sha256.Sum256(content)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answered[strings.TrimPrefix(res.Header.Get("Location"), "/api/uploads/")] = hex.EncodeToString(sum[:])
}

// run sends until the function that it returns is called.
func (s *senders) run(n int) func() {
	stop := make(chan struct{})
	var running sync.WaitGroup
	for range n {
		running.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					s.send()
				}
			}
		})
	}
	return func() { close(stop); running.Wait() }
}

// durableServer is a database server that may crash: it writes to the disk what others
// in tests needn't.
func durableServer(t *testing.T) *embedded.Server {
	t.Helper()
	o := embedded.Options{DataDir: dbtest.TempDir(t), BinDir: os.Getenv("WAYPOST_POSTGRES_BIN"), Download: true}
	server, err := embedded.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Stop(context.Background())
		if err := embedded.Remove(context.Background(), o.DataDir); err != nil {
			t.Error(err)
		}
	})
	if err := server.EnsureDatabase(t.Context(), "files"); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Upgrade(t.Context(), db.UpgradeOptions{OwnerURL: server.OwnerURL("files")}); err != nil {
		t.Fatal(err)
	}
	return server
}

// crashDatabase kills a process of the server, which then forgets what it has only in
// memory, and recovers from what it has written.
func crashDatabase(t *testing.T, url string) {
	t.Helper()
	conn := awaitDatabase(t, url)
	defer func() { _ = conn.Close(t.Context()) }()
	if err := syscall.Kill(int(conn.PgConn().PID()), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

// awaitDatabase connects to a server that may still recover from a crash.
func awaitDatabase(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), outside.Patience)
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
	for err != nil && ctx.Err() == nil {
		<-time.After(20 * time.Millisecond)
		conn, err = pgx.Connect(ctx, url)
	}
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

func TestEveryUploadThatWasAnsweredIsReadableThoughServiceAndDatabaseAreKilled(t *testing.T) {
	t.Parallel()
	dir := dbtest.TempDir(t)
	uploadsSurvive(t, dir, []string{"WAYPOST_UPLOAD_DIR=" + dir}, nil)
}

// uploadsSurvive uploads while the service, the database and, with killStorage, the
// storage are killed. dir is where the storage has its files.
func uploadsSurvive(t *testing.T, dir string, env []string, killStorage func()) {
	t.Helper()
	server := durableServer(t)
	url := server.AppURL("files")
	env = append(env, "WAYPOST_DATABASE_MAX_CONNS=14", "WAYPOST_UPLOAD_QUOTA=1TiB")
	p := startServe(t, url, env...)
	s := &senders{url: p.url, token: admin(t, p, url), answered: map[string]string{}}
	stop := s.run(12)
	for round := range 9 {
		<-time.After(100*time.Millisecond + rand.N(500*time.Millisecond)) // the instant is what is random
		switch {
		case round%3 == 0:
			p.kill()
			_ = awaitDatabase(t, server.AdminURL("files")).Close(t.Context()) // serve doesn't start without one
			p = startServe(t, url, env...)
			s.to(p.url)
		case round%3 == 1 || killStorage == nil:
			crashDatabase(t, server.AdminURL("files"))
		default:
			killStorage()
		}
	}
	<-time.After(500 * time.Millisecond)
	stop()
	p.kill()
	age(t, server, dir)
	p = startServe(t, url, env...)
	conn, err := pgx.Connect(t.Context(), server.AdminURL("files"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	ready := readyRows(t, conn)
	p.waitFor(t, "end of the sweep", func() bool {
		var left int
		if err := conn.QueryRow(t.Context(), `select count(*) from uploads where status = 'pending'`).Scan(&left); err != nil {
			t.Fatal(err)
		}
		return left == 0 && len(storedFiles(t, dir)) <= len(ready)
	})
	files := storedFiles(t, dir)
	t.Logf("%d were answered 201, %d are ready", len(s.answered), len(ready))
	if len(s.answered) < 10 || len(files) != len(ready) {
		t.Errorf("%d were answered, %d are ready, %d are stored", len(s.answered), len(ready), len(files))
	}
	token := signIn(t, p, "root@example.com", outside.Password)
	for id, r := range ready {
		a := outside.Do(t, "GET", p.url+"/api/uploads/"+id+"/content", "", "Authorization", "Bearer "+token)
		sum := sha256.Sum256(a.Body)
		if got := hex.EncodeToString(sum[:]); a.Status != http.StatusOK || got != r.checksum {
			t.Errorf("upload %s: %d, %d bytes with the checksum %s, want %s", id, a.Status, len(a.Body), got, r.checksum)
		}
		if files[r.key] == "" {
			t.Errorf("upload %s: no file %s", id, r.key)
		}
	}
	for id, checksum := range s.answered {
		if ready[id].checksum != checksum {
			t.Errorf("upload %s was answered with %s, and has %q", id, checksum, ready[id].checksum)
		}
	}
	var counted, held int64
	if err := conn.QueryRow(t.Context(), `select (select sum(bytes) from upload_usage)::bigint, (select sum(held) from uploads)::bigint`).Scan(&counted, &held); err != nil || counted != held {
		t.Errorf("%d bytes are counted, %d are held, %v", counted, held, err)
	}
}

type readyUpload struct{ checksum, key string }

// readyRows are the ready ones, by id.
func readyRows(t *testing.T, conn *pgx.Conn) map[string]readyUpload {
	t.Helper()
	rows, err := conn.Query(t.Context(), `select id::text, encode(sha256, 'hex'), key from uploads where status = 'ready'`)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]readyUpload{}
	var id, checksum, key string
	if _, err := pgx.ForEachRow(rows, []any{&id, &checksum, &key}, func() error {
		found[id] = readyUpload{checksum, key}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return found
}

// age makes everything old enough to be swept, and the sweep due.
func age(t *testing.T, server *embedded.Server, dir string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), server.AdminURL("files"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	if _, err := conn.Exec(t.Context(), `set waypost.actor_type = 'system'; set waypost.actor_id = 'test'; set waypost.action = 'system:test';
		update uploads set expires_at = now() - interval '1 hour' where status = 'pending';
		update cron set next_run_at = now() where name = 'uploads.sweep'`); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-100 * time.Hour)
	for _, path := range slices.Sorted(maps.Values(storedFiles(t, dir))) {
		if err := os.Chtimes(path, old, old); err != nil {
			t.Fatal(err)
		}
	}
}

// storedFiles are the objects in a directory, by their keys.
func storedFiles(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == "owner" || strings.Contains(path, ".sgwtmp") { // the gateway's own
			return err
		}
		key, err := filepath.Rel(dir, path)
		found[filepath.ToSlash(key)] = path
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
