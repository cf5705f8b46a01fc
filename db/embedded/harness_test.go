package embedded

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db/dbtest/fastdir"
	"github.com/waypost/waypost/db/embedded/process"
)

const (
	// actorVar makes the test binary play a Waypost that a test can kill.
	actorVar = "EMBEDDED_TEST_ACTOR"
	patient  = time.Minute // no promise is about speed; a slow machine may take its time
)

// script is what such a Waypost does: start or attach, say so, wait for a signal, stop.
type script struct {
	Options Options
	Attach  bool // AttachOrStart instead of Start
	Brief   bool // leave at once
}

func TestMain(m *testing.M) {
	if text, ok := os.LookupEnv(actorVar); ok {
		os.Exit(act(text))
	}
	if err := sweep(); err != nil {
		fmt.Fprintln(os.Stderr, "what a killed run left:", err)
	}
	code := m.Run()
	if err := os.RemoveAll(modelDir()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

const placePrefix = "waypost-embedded-"

// placeName begins the names of this process's directories.
func placeName() string { return fmt.Sprintf("%s%d-", placePrefix, os.Getpid()) }

func modelDir() string { return filepath.Join(fastdir.Path(), placeName()+"model") }

// sweep removes the places of test processes that were killed.
func sweep() error {
	var places []string
	for _, dir := range fastdir.Candidates() {
		found, err := filepath.Glob(filepath.Join(escapeGlob(dir), placePrefix+"*"))
		if err != nil {
			return err
		}
		places = append(places, found...)
	}
	var err error
	for _, place := range places {
		var pid int
		if _, err := fmt.Sscanf(filepath.Base(place), placePrefix+"%d-", &pid); err != nil {
			continue
		}
		if _, gone := process.Lookup(pid); errors.Is(gone, process.ErrGone) {
			err = errors.Join(err, removePlace(place))
		}
	}
	return err
}

// removePlace leaves a place alone in which another process is at work.
func removePlace(place string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patient)
	defer cancel()
	inside, err := os.ReadDir(place)
	for _, entry := range inside {
		data := filepath.Join(place, entry.Name())
		exists, existsErr := Exists(data)
		if exists {
			err = errors.Join(err, Remove(ctx, data))
		}
		err = errors.Join(err, existsErr)
	}
	if err != nil {
		return err
	}
	return os.RemoveAll(place)
}

func act(text string) int {
	var sc script
	if err := json.Unmarshal([]byte(text), &sc); err != nil {
		fmt.Println("failed", err)
		return 2
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // ends with the test, however that does
		os.Exit(1)
	}()
	ctx, cancel := context.WithTimeout(context.Background(), patient)
	defer cancel()
	begin := Start
	if sc.Attach {
		begin = AttachOrStart
	}
	sc.Options.Logger = slog.New(slog.NewTextHandler(os.Stderr, nil))
	s, err := begin(ctx, sc.Options)
	if inUse, ok := errors.AsType[*InUseError](err); ok {
		fmt.Println("in-use", inUse.PID)
		return 3
	}
	if err != nil {
		fmt.Println("failed", err)
		return 1
	}
	fmt.Println("ready", os.Getpid())
	if !sc.Brief {
		<-signals
	}
	// As Waypost does for its requests in flight, use the database after the signal.
	conn, err := pgx.Connect(ctx, s.AppURL("postgres"))
	if err != nil {
		fmt.Println("failed", err)
		return 1
	}
	err = errors.Join(conn.Ping(ctx), conn.Close(ctx), s.Stop(ctx))
	if err != nil {
		fmt.Println("failed", err)
		return 1
	}
	fmt.Println("stopped")
	return 0
}

// actor is a running Waypost process.
type actor struct {
	cmd   *exec.Cmd
	lines *bufio.Scanner
}

func play(t *testing.T, sc script) *actor {
	t.Helper()
	sc.Options.Logger = nil
	text, err := json.Marshal(sc)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), actorVar+"="+string(text))
	// A process group of its own, like a terminal's foreground job.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Stderr = t.Output()
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return &actor{cmd: cmd, lines: bufio.NewScanner(out)}
}

// says reads the actor's next line.
func (a *actor) says(t *testing.T) string {
	t.Helper()
	if !a.lines.Scan() {
		t.Fatalf("the process ended without a word (%v)", a.lines.Err())
	}
	return a.lines.Text()
}

func (a *actor) mustSay(t *testing.T, word string) {
	t.Helper()
	if got := a.says(t); !strings.HasPrefix(got, word) {
		t.Fatalf("the process said %q, want %s", got, word)
	}
}

func (a *actor) kill(t *testing.T) {
	t.Helper()
	if err := a.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = a.cmd.Wait() // "signal: killed"
}

// newOptions is newPlace with a cluster in it, to spare the tests initdb.
func newOptions(t *testing.T) Options {
	t.Helper()
	return newOptionsIn(t, "data")
}

// newOptionsIn is newOptions with a data directory of that name.
func newOptionsIn(t *testing.T, name string) Options {
	t.Helper()
	o := newPlace(t)
	o.DataDir = filepath.Join(filepath.Dir(o.DataDir), name)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patient)
		defer cancel()
		if err := Remove(ctx, o.DataDir); err != nil {
			t.Errorf("clean up: %v", err)
		}
	})
	model, err := modelCluster()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := o.makeDataDir(); err != nil {
		t.Fatal(err)
	}
	l, err := newLayout(o, model.account, model.bin)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.prepare(model.account); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("cp", "-pR", model.layout.cluster(), l.cluster()).CombinedOutput(); err != nil {
		t.Fatalf("copy the model cluster: %v\n%s", err, out)
	}
	return o
}

// modelCluster is a stopped server, made once; TestMain removes it.
var modelCluster = sync.OnceValues(func() (*Server, error) {
	base := modelDir()
	if err := mkdir(base, 0o711); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patient)
	defer cancel()
	s, err := Start(ctx, Options{DataDir: filepath.Join(base, "data"), RelocationDir: base})
	if err != nil {
		return nil, err
	}
	return s, s.Stop(ctx)
})

// newPlace is a place that the server's unprivileged user can enter, which
// t.TempDir is not. What a test leaves running there is stopped.
func newPlace(t *testing.T) Options {
	t.Helper()
	base, err := os.MkdirTemp(fastdir.Path(), placeName())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(base, 0o711); err != nil {
		t.Fatal(err)
	}
	o := Options{DataDir: filepath.Join(base, "data"), RelocationDir: filepath.Join(base, "relocated"), Logger: slog.New(slog.NewTextHandler(t.Output(), nil)), Settings: inDataDir()}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patient)
		defer cancel()
		if err := Remove(ctx, o.DataDir); err != nil {
			t.Errorf("clean up: %v", err)
		}
		if err := os.RemoveAll(base); err != nil {
			t.Errorf("clean up: %v", err)
		}
	})
	return o
}

// inDataDir keeps the server's shared memory where it goes with the directory: a
// killed server can't remove what it has in the system's.
func inDataDir() map[string]string {
	return map[string]string{"dynamic_shared_memory_type": "mmap"}
}

func mustStart(t *testing.T, o Options) *Server {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patient)
	defer cancel()
	s, err := Start(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { mustStop(t, s) })
	return s
}

func mustStop(t *testing.T, s *Server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patient)
	defer cancel()
	if err := s.Stop(ctx); err != nil {
		t.Error(err)
	}
}

// query runs one statement as the superuser and gives its only value.
func query(ctx context.Context, url, sql string) (string, error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	var value string
	err = conn.QueryRow(ctx, sql).Scan(&value)
	return value, err
}

func mustQuery(t *testing.T, url, sql string) string {
	t.Helper()
	value, err := query(t.Context(), url, sql)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return value
}

// remember commits a row, and recall expects it.
func remember(t *testing.T, url string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	if _, err := conn.Exec(t.Context(), `create table kept (word text); insert into kept values ('still here')`); err != nil {
		t.Fatal(err)
	}
}

func recall(t *testing.T, url string) {
	t.Helper()
	if got := mustQuery(t, url, `select word from kept`); got != "still here" {
		t.Errorf("the committed row reads %q", got)
	}
}

// adminURL reaches a server that this process did not start.
func adminURL(t *testing.T, o Options) string {
	t.Helper()
	l, err := readLayout(o.DataDir)
	if err != nil {
		t.Fatal(err)
	}
	return (&Server{socketDir: l.socketDir()}).AdminURL("postgres")
}

// servers are the living postmasters of the data directory, however many.
func servers(t *testing.T, o Options) []process.Process {
	t.Helper()
	l, err := readLayout(o.DataDir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	found, err := process.Matching(func(p process.Process) bool { return serves(p, l.cluster()) })
	if err != nil {
		t.Fatal(err)
	}
	if len(found) < 2 {
		return found
	}
	// A child looks like its server until it has given itself a title.
	all := slices.Clone(found)
	return slices.DeleteFunc(found, func(p process.Process) bool {
		parent := parentOf(p)
		return slices.ContainsFunc(all, func(q process.Process) bool { return q.PID == parent })
	})
}

// parentOf is 0 for a process that has just ended.
func parentOf(p process.Process) int {
	out, err := exec.Command("ps", "-o", "ppid=", "-p", strconv.Itoa(p.PID)).Output()
	if err != nil {
		return 0
	}
	parent, err := strconv.Atoi(strings.TrimSpace(string(out)))
	if err != nil {
		return 0
	}
	return parent
}

func wantServers(t *testing.T, o Options, want int) {
	t.Helper()
	if found := servers(t, o); len(found) != want {
		t.Errorf("%d servers run on one data directory, want %d: %v", len(found), want, found)
	}
}

// eventually waits for a condition and fails the test after a long while.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(patient)
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatalf("waited %v in vain: %s", patient, what)
		}
		<-time.After(10 * time.Millisecond)
	}
}
