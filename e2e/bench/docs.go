package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	docsConns = 64
	docsLeast = 0.9
	docsPath  = "/docs/openapi.json"
	// docsSlice is so short that what else the machine does meets both sides alike.
	docsSlice = 500 * time.Millisecond
)

// docsCodings are those that clients ask for.
var docsCodings = []string{"identity", "gzip", "br", "zstd"}

// envPlain makes this program a server of the answers in the directory it names,
// headers and all, each from memory by net/http alone: the limit of docsFigure.
const envPlain = "BENCH_PLAIN_DIR"

// docsFigure alternates slices of requests for the description with slices of
// requests for the same answer from net/http, in each coding.
func docsFigure(ctx context.Context, w *world) error {
	serve := w.serve
	if w.profile != "" {
		serve = func(ctx context.Context) error { return w.serveHandlers(ctx) }
	}
	if err := serve(ctx); err != nil {
		return err
	}
	sizes := map[string]int{}
	for _, coding := range docsCodings {
		a, err := fetch(ctx, w.url+docsPath, coding)
		if err != nil {
			return err
		}
		sizes[coding] = len(a.Body)
		if err := a.write(filepath.Join(w.dir, coding)); err != nil {
			return err
		}
	}
	plain, err := w.servePlain(ctx)
	if err != nil {
		return err
	}
	for _, coding := range docsCodings {
		if err := w.compareDocs(ctx, plain, coding, sizes[coding]); err != nil {
			return err
		}
	}
	return nil
}

// compareDocs gives each side a slice in turn, and begins each pair with the other side
// than the last. The median of the pairs' ratios counts.
func (w *world) compareDocs(ctx context.Context, plain, coding string, size int) error {
	ours, err := dialMany(ctx, request{strings.TrimPrefix(w.url, "http://"), docsPath, coding, size})
	if err != nil {
		return err
	}
	defer ours.close()
	theirs, err := dialMany(ctx, request{plain, "/" + coding, coding, size})
	if err != nil {
		return err
	}
	defer theirs.close()
	for _, warmUp := range []*askers{ours, theirs} {
		if _, err := warmUp.repeat(time.Second); err != nil {
			return err
		}
	}
	var ratios, rates, limits []float64
	for pair := range max(1, int(w.docs/docsSlice)) {
		inTurn := []*askers{ours, theirs}
		if pair%2 == 1 {
			slices.Reverse(inTurn)
		}
		did := map[*askers]rate{}
		for _, side := range inTurn {
			if did[side], err = side.repeat(docsSlice); err != nil {
				return err
			}
			side.used += did[side].processor.servers
		}
		rates, limits = append(rates, did[ours].perSecond), append(limits, did[theirs].perSecond)
		ratios = append(ratios, did[ours].perSecond/did[theirs].perSecond)
	}
	pairs := time.Duration(len(ratios))
	fmt.Printf("   %-8s %7d bytes: %.0f/s, net/http %.0f/s: %.2f (>= %.1f) %s; processor of the server %v and %v each\n", coding, size,
		middle(rates), middle(limits), middle(ratios), docsLeast, verdict(middle(ratios) >= docsLeast), ours.used/pairs, theirs.used/pairs)
	return nil
}

// answer is what the description is served as.
type answer struct {
	Header http.Header
	Body   []byte
}

func (a answer) write(file string) error {
	b, err := json.Marshal(a)
	if err != nil {
		return err
	}
	return os.WriteFile(file, b, 0o600)
}

// fetch returns an answer in one coding, as it comes.
func fetch(ctx context.Context, url, coding string) (answer, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return answer{}, err
	}
	r.Header.Set("Accept-Encoding", coding)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	if got := resp.Header.Get("Content-Encoding"); resp.StatusCode != http.StatusOK || got != coding && coding != "identity" {
		return answer{}, fmt.Errorf("GET %s in %s: %s in %q", url, coding, resp.Status, got)
	}
	body, err := io.ReadAll(resp.Body)
	return answer{resp.Header, body}, err
}

// request is one that is sent again and again; the answer's body has size bytes.
type request struct {
	address, path, coding string
	size                  int
}

// askers are connections over which a request is repeated.
type askers struct {
	request
	free chan *asker
	used time.Duration // the server's processor time for a request, summed over slices
}

// asker is one of them.
type asker struct {
	conn    net.Conn
	answers *bufio.Reader
}

// dialMany opens connections that stay open from slice to slice.
func dialMany(ctx context.Context, r request) (*askers, error) {
	a := &askers{request: r, free: make(chan *asker, docsConns)}
	for range docsConns {
		var dialer net.Dialer
		conn, err := dialer.DialContext(ctx, "tcp", r.address)
		if err != nil {
			a.close()
			return nil, err
		}
		a.free <- &asker{conn, bufio.NewReaderSize(conn, 64<<10)}
	}
	return a, nil
}

func (a *askers) close() {
	close(a.free)
	for each := range a.free {
		_ = each.conn.Close()
	}
}

// repeat sends the request over all connections for d, over each again when it was answered.
func (a *askers) repeat(d time.Duration) (rate, error) {
	send := fmt.Appendf(nil, "GET %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: bench\r\nAccept-Encoding: %s\r\n\r\n", a.path, a.address, a.coding)
	return inParallel(docsConns, d, func(until time.Time) ([]time.Duration, error) {
		each := <-a.free
		defer func() { a.free <- each }()
		return timed(until, func() error {
			if _, err := each.conn.Write(send); err != nil {
				return err
			}
			return a.read(each.answers)
		})
	})
}

// read takes one answer, which must be 200 with a body of the size expected.
func (r request) read(answers *bufio.Reader) error {
	h, err := readHead(answers)
	if err != nil {
		return err
	}
	if h.status != http.StatusOK || h.length != r.size {
		return fmt.Errorf("answered %d with %d bytes where 200 with %d were expected", h.status, h.length, r.size)
	}
	_, err = answers.Discard(h.length)
	return err
}

// servePlain runs this program as a plain server of the files in w.dir that are
// named after codings, and returns its address.
func (w *world) servePlain(ctx context.Context) (string, error) {
	return w.runSelf(ctx, envPlain+"="+w.dir)
}

// runSelf runs this program with a setting that makes it a server, and returns the
// address that it says.
func (w *world) runSelf(ctx context.Context, setting string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), setting)
	cmd.Stderr = os.Stderr
	said, err := cmd.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := cmd.Start(); err != nil {
		return "", err
	}
	w.stops = append(w.stops, func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
	})
	address, err := bufio.NewReader(said).ReadString('\n')
	return strings.TrimSpace(address), err
}

// runPlain is that server. It says its address on standard output.
func runPlain(ctx context.Context, dir string) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	mux := http.NewServeMux()
	for _, coding := range docsCodings {
		raw, err := os.ReadFile(filepath.Join(dir, coding))
		if err != nil {
			return err
		}
		var a answer
		if err := json.Unmarshal(raw, &a); err != nil {
			return err
		}
		mux.HandleFunc("GET /"+coding, func(w http.ResponseWriter, _ *http.Request) {
			maps.Copy(w.Header(), a.Header)
			_, _ = w.Write(a.Body)
		})
	}
	return servePlainly(ctx, mux)
}

// servePlainly serves at an address that is free, which it says on standard output,
// until ctx ends.
func servePlainly(ctx context.Context, mux http.Handler) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	// With the connection limits of any server that strangers reach: they cost both alike.
	s := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 45 * time.Second, WriteTimeout: time.Minute, IdleTimeout: 2 * time.Minute}
	context.AfterFunc(ctx, func() { _ = s.Close() })
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
