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
	docsRounds = 15
	docsLeast  = 0.9
	docsPath   = "/docs/openapi.json"
)

// envPlain makes this program a server of the answers in the directory it names,
// headers and all, each from memory by net/http alone: the limit of docsFigure.
const envPlain = "BENCH_PLAIN_DIR"

// docsFigure alternates rounds of requests for the description with rounds of
// requests for the same answer from net/http, in each coding that clients ask for.
func docsFigure(ctx context.Context, w *world) error {
	if err := w.serve(ctx); err != nil {
		return err
	}
	codings := []string{"identity", "gzip", "br"}
	sizes := map[string]int{}
	for _, coding := range codings {
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
	for _, coding := range codings {
		if err := w.compareDocs(ctx, plain, coding, sizes[coding]); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) compareDocs(ctx context.Context, plain, coding string, size int) error {
	ours := request{strings.TrimPrefix(w.url, "http://"), docsPath, coding, size}
	theirs := request{plain, "/" + coding, coding, size}
	for _, warmUp := range []request{ours, theirs} {
		if _, err := warmUp.repeat(ctx, time.Second); err != nil {
			return err
		}
	}
	var ratios, rates, limits []float64
	for range docsRounds {
		a, err := ours.repeat(ctx, w.docs)
		if err != nil {
			return err
		}
		b, err := theirs.repeat(ctx, w.docs)
		if err != nil {
			return err
		}
		rates, limits = append(rates, a.perSecond), append(limits, b.perSecond)
		ratios = append(ratios, a.perSecond/b.perSecond)
	}
	middle := func(of []float64) float64 { return slices.Sorted(slices.Values(of))[len(of)/2] }
	fmt.Printf("   %-8s %7d bytes: %.0f/s, net/http %.0f/s: %.2f (>= %.1f) %s\n", coding, size,
		middle(rates), middle(limits), middle(ratios), docsLeast, verdict(middle(ratios) >= docsLeast))
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

// request is one that workers send again and again, each over a connection of
// its own; the answer's body has size bytes.
type request struct {
	address, path, coding string
	size                  int
}

func (r request) repeat(ctx context.Context, d time.Duration) (rate, error) {
	return inParallel(webhookConns, d, func(until time.Time) ([]time.Duration, error) {
		var dialer net.Dialer
		conn, err := dialer.DialContext(ctx, "tcp", r.address)
		if err != nil {
			return nil, err
		}
		defer func() { _ = conn.Close() }()
		answers := bufio.NewReaderSize(conn, 64<<10)
		send := fmt.Appendf(nil, "GET %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: bench\r\nAccept-Encoding: %s\r\n\r\n", r.path, r.address, r.coding)
		return timed(until, func() error {
			if _, err := conn.Write(send); err != nil {
				return err
			}
			return r.read(answers)
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
	for _, coding := range []string{"identity", "gzip", "br"} {
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
