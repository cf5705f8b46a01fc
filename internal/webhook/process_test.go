package webhook_test

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/internal/jobs"
	"github.com/waypost/waypost/internal/queue"
	"github.com/waypost/waypost/internal/webhook"
)

// Environment of a test binary that is to be a receiver's process.
const (
	envDatabase = "WEBHOOK_TEST_DATABASE"
	envTarget   = "WEBHOOK_TEST_TARGET"
	envTargets  = "WEBHOOK_TEST_TARGETS" // of kindMany, as name=url, with commas
	envWithout  = "WEBHOOK_TEST_WITHOUT_HANDLERS"
	envBoundary = "WEBHOOK_TEST_KILL_AT"    // a Boundary
	envCount    = "WEBHOOK_TEST_KILL_COUNT" // at which arrival there
)

// TestMain makes the test binary a receiver's process where it is told to. The slow
// tests here wait more than they work, so six of them run at once; the flag -parallel
// still says otherwise.
func TestMain(m *testing.M) {
	if url := os.Getenv(envDatabase); url != "" {
		go endWithTheTest()
		if err := runProcess(url); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if err := flag.Set("test.parallel", "6"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	os.Exit(m.Run())
}

// endWithTheTest ends the process when the test's is gone, killed perhaps: then
// nobody holds the other end of its input any more.
func endWithTheTest() {
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(1)
}

// runProcess receives deliveries over HTTP until it is told to end, or kills
// itself at a boundary.
func runProcess(url string) error {
	ctx := context.Background()
	d, err := db.Open(ctx, db.Options{URL: url, MaxConns: 12})
	if err != nil {
		return err
	}
	defer d.Close()
	r, err := processReceiver(d)
	if err != nil {
		return err
	}
	runner, err := processJobs(d, r)
	if err != nil {
		return err
	}
	if err := runner.Start(ctx); err != nil {
		return err
	}
	r.Start()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: deliveries(r)}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(l) }()
	fmt.Println(l.Addr())
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	for sweep := time.NewTicker(100 * time.Millisecond); ; {
		select {
		case <-sweep.C:
			_, _ = r.Sweep(ctx) // what they can't do now they do soon
			_, _ = r.SweepForwards(ctx)
			continue
		case err := <-failed:
			return err
		case <-stop:
		}
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		return errors.Join(server.Shutdown(ctx), runner.Stop(ctx), r.Close(ctx))
	}
}

// deliveries is the receiver over HTTP, without what is the API's.
func deliveries(r *faces) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, err := io.ReadAll(q.Body)
		if err != nil {
			return
		}
		got, err := r.Receive(q.Context(), webhook.Inbound{Provider: "payment", Header: q.Header, Body: body})
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintf(w, "%s %s", got.Status, got.ID)
	})
}

// The sorts of event that a process handles.
const (
	kindTx      = "tx"      // an effect in the handler's transaction
	kindPlain   = "plain"   // a handler without one
	kindNone    = "none"    // no handler
	kindFlaky   = "flaky"   // fails every fifth time, with retries; its effect in a transaction
	kindForward = "forward" // posted to the target
	kindFailing = "failing" // always fails, after having had an effect that is undone
	kindMany    = "many"    // posted to each of several targets
)

func kinds() []string {
	return []string{kindTx, kindPlain, kindNone, kindFlaky, kindForward, kindFailing}
}

func processReceiver(d *db.DB) (*faces, error) {
	lookup := func(name string) string {
		return map[string]string{"PAYMENT_WEBHOOK_SECRET": paymentSecret, "FORWARD_SECRET": forwardSecret}[name]
	}
	soon := func(int) time.Duration { return 10 * time.Millisecond }
	target := cmp.Or(os.Getenv(envTarget), "http://localhost") // where nothing is sent without one
	forward, err := webhook.Forward(webhook.ForwardTarget{Provider: "payment", EventType: kindForward, URL: target, SecretEnv: "FORWARD_SECRET"},
		webhook.ForwardOptions{LookupSecret: lookup, Retry: webhook.Retry{Attempts: 50, Backoff: soon}})
	if err != nil {
		return nil, err
	}
	undone := func(ctx context.Context, d *webhook.Delivery) error { return errors.Join(inTx(ctx, d), errHandler) }
	bindings := []webhook.Binding{
		webhook.Handle("payment", kindTx, inTx),
		webhook.Handle("payment", kindPlain, func(context.Context, *webhook.Delivery) error { return nil }),
		webhook.Handle("payment", kindFailing, undone),
		webhook.Binding{Provider: "payment", EventType: kindFlaky, Retry: webhook.Retry{Attempts: 50, Backoff: soon}, Handler: func(ctx context.Context, d *webhook.Delivery) error {
			if rand.N(5) == 0 {
				return undone(ctx, d)
			}
			return inTx(ctx, d)
		}},
		forward,
	}
	if list := os.Getenv(envTargets); list != "" {
		many, err := manyTargets(list, webhook.ForwardOptions{LookupSecret: lookup, Retry: webhook.Retry{Attempts: 50, Backoff: soon}})
		if err != nil {
			return nil, err
		}
		bindings = append(bindings, many)
	}
	if os.Getenv(envWithout) != "" {
		bindings = nil
	}
	registry, err := webhook.NewRegistry([]webhook.Registration{webhook.Payment()}, bindings...)
	if err != nil {
		return nil, err
	}
	q, err := queue.New(discard)
	if err != nil {
		return nil, err
	}
	return newFaces(webhook.Options{
		DB: d, Registry: registry, Logger: discard, LookupSecret: lookup, Jobs: q,
		Budget: 2 * time.Second, AnswerAfter: time.Second, Lease: 3 * time.Second, Interrupt: killer(),
	})
}

// manyTargets binds kindMany to each of a list of name=url.
func manyTargets(list string, o webhook.ForwardOptions) (webhook.Binding, error) {
	var targets []webhook.ForwardTarget
	for one := range strings.SplitSeq(list, ",") {
		name, url, _ := strings.Cut(one, "=")
		targets = append(targets, webhook.ForwardTarget{Provider: "payment", EventType: kindMany, Name: name, URL: url, SecretEnv: "FORWARD_SECRET", Timeout: 2 * time.Second})
	}
	return webhook.ForwardAll(targets, o)
}

// killer ends the process as kill -9 does, at the boundary that it was given.
func killer() func(webhook.Boundary, uuid.UUID) error {
	at, left := webhook.Boundary(os.Getenv(envBoundary)), atomic.Int64{}
	n, _ := strconv.ParseInt(os.Getenv(envCount), 10, 64) // none when it is not set
	left.Store(n)
	return func(b webhook.Boundary, _ uuid.UUID) error {
		if b == at && left.Add(-1) == 0 {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
		return nil
	}
}

// processJobs works the receiver's jobs.
func processJobs(d *db.DB, r *faces) (*jobs.Runner, error) {
	return jobs.New(jobs.Options{
		DB: d, Logger: discard,
		Periodic: []jobs.Periodic{
			{Name: "webhooks.sweep", Every: 30 * time.Second, Everywhere: true, Run: r.Sweep},
			{Name: "webhooks.sweep_forwards", Every: 10 * time.Second, Everywhere: true, Run: r.SweepForwards},
			{Name: "webhooks.announce_bindings", Every: time.Minute, Everywhere: true, Run: r.Announce},
		},
		Workers: []jobs.Worker{jobs.WorkByID(r.Attempt, jobs.Limits{Wait: jobs.SoonAgain}), jobs.Work(r.ContinueBulk, jobs.Limits{})},
	})
}

// process is a receiver in a process of its own.
type process struct {
	cmd    *exec.Cmd
	url    string
	exited chan struct{}
}

// startProcess runs one on the database; env is added to its environment.
func startProcess(t *testing.T, database, target string, env ...string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(os.Args[0]), exited: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), append(env, envDatabase+"="+database, envTarget+"="+target)...)
	p.cmd.Stderr = os.Stderr
	if _, err := p.cmd.StdinPipe(); err != nil { // see endWithTheTest
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	address, err := bufio.NewReader(out).ReadString('\n')
	p.url = "http://" + strings.TrimSpace(address)
	go func() {
		_ = p.cmd.Wait() // killed, as likely as not
		close(p.exited)
	}()
	t.Cleanup(p.kill)
	if err != nil && len(env) == 0 {
		t.Fatalf("the process did not start: %v", err)
	}
	return p
}

// kill is kill -9.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.exited
}

// stop lets the process end by itself.
func (p *process) stop(t *testing.T) {
	t.Helper()
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.exited:
	case <-time.After(patience):
		t.Error("the process did not end")
		p.kill()
	}
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("the process ended with %d", code)
	}
}
