package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net"
	"net/http"
	"net/textproto"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/waypost/waypost/internal/account"
	"github.com/waypost/waypost/internal/identity"
)

const (
	uploadConns  = 64
	uploadRounds = 5
)

// uploadSizes are what is sent and read, with what each must reach of the limit.
var uploadSizes = []struct {
	name     string
	bytes    int
	up, down float64
}{
	{"1 MiB", 1 << 20, 0.7, 0.8},
	{"64 KiB", 64 << 10, 0.3, 0.4},
}

// envFiles makes this program a server that copies bodies to plain files in the
// directory it names, with fsync of file and directory, and that serves files from it:
// the limit of uploadsFigure.
const envFiles = "BENCH_FILES_DIR"

// uploadsFigure alternates rounds of uploads, and of downloads, with rounds of the same
// from net/http. Uploads send one file again and again, as a form. Downloads are by a
// link and with a bearer token: the latter's check costs as much as all else.
func uploadsFigure(ctx context.Context, w *world) error {
	ours, plain := filepath.Join(w.dir, "ours"), filepath.Join(w.dir, "plain")
	if err := errors.Join(os.Mkdir(ours, 0o700), os.Mkdir(plain, 0o700)); err != nil {
		return err
	}
	token, err := w.uploader(ctx, ours)
	if err != nil {
		return err
	}
	address, err := w.serveFiles(ctx, plain)
	if err != nil {
		return err
	}
	for _, s := range uploadSizes {
		file := make([]byte, s.bytes)
		_, _ = rand.Read(file)                   // never fails
		copy(file, "PK\x03\x04\x14\x00\x00\x00") // a ZIP, as far as its first bytes tell
		form, formType := formOf(file)
		up := exchangeOf{
			address: strings.TrimPrefix(w.url, "http://"), status: http.StatusCreated, least: 0,
			request: fmt.Appendf(nil, "POST /api/uploads HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n", token, formType, len(form)), body: form,
		}
		upLimit := exchangeOf{
			address: address, status: http.StatusCreated,
			request: fmt.Appendf(nil, "POST /up HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", len(file)), body: file,
		}
		if err := w.compareFiles(ctx, s.name+" up", up, upLimit, s.up, ours, plain); err != nil {
			return err
		}
		id, err := w.uploadOne(ctx, token, form, formType)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(plain, "down"), file, 0o600); err != nil {
			return err
		}
		link, err := w.linkTo(ctx, token, id)
		if err != nil {
			return err
		}
		downLimit := exchangeOf{address: address, status: http.StatusOK, least: s.bytes, request: []byte("GET /down HTTP/1.1\r\nHost: x\r\n\r\n")}
		for _, way := range []struct{ name, request string }{
			{" down", "GET " + link + " HTTP/1.1\r\nHost: x\r\n\r\n"},
			{" down, bearer", fmt.Sprintf("GET /api/uploads/%d/content HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n", id, token)},
		} {
			down := exchangeOf{address: up.address, status: http.StatusOK, least: s.bytes, request: []byte(way.request)}
			if err := w.compareFiles(ctx, s.name+way.name, down, downLimit, s.down, "", ""); err != nil {
				return err
			}
		}
	}
	return nil
}

// uploader runs the service with files in dir, and returns the access token of an
// account whose quota doesn't matter.
func (w *world) uploader(ctx context.Context, dir string) (string, error) {
	accounts, err := account.New(account.Options{DB: w.db})
	if err != nil {
		return "", err
	}
	const email, password = "ada@example.com", "correct horse battery staple"
	if _, err := accounts.Create(ctx, account.NewUser{FirstName: "Ada", LastName: "Lovelace", Email: email, Password: password, Role: identity.User}); err != nil {
		return "", err
	}
	settings := []string{"WAYPOST_UPLOAD_DIR=" + dir, "WAYPOST_UPLOAD_QUOTA=1TiB"}
	if w.profile != "" {
		err = w.serveHandlers(ctx, settings...)
	} else {
		err = w.start(ctx, func(address string) *exec.Cmd {
			cmd := exec.CommandContext(ctx, w.binary(), "serve", "--addr", address, "--url", w.url)
			cmd.Env = settings
			return cmd
		})
	}
	if err != nil {
		return "", err
	}
	var in struct {
		Data struct {
			AccessToken string `json:"access_token"`
		}
	}
	body := fmt.Sprintf(`{"email":%q,"password":%q}`, email, password)
	err = w.post(ctx, "/api/auth/login", "application/json", "", []byte(body), &in)
	return in.Data.AccessToken, err
}

func (w *world) uploadOne(ctx context.Context, token string, form []byte, formType string) (int64, error) {
	var made struct{ Data struct{ ID int64 } }
	err := w.post(ctx, "/api/uploads", formType, token, form, &made)
	return made.Data.ID, err
}

// linkTo is a link's path, which needs no credential, as files are mostly shown by.
func (w *world) linkTo(ctx context.Context, token string, id int64) (string, error) {
	var made struct{ Data struct{ URL string } }
	err := w.post(ctx, fmt.Sprintf("/api/uploads/%d/link", id), "application/json", token, []byte(`{"expires_in":3600}`), &made)
	return strings.TrimPrefix(made.Data.URL, w.url), err
}

func (w *world) post(ctx context.Context, path, contentType, token string, body []byte, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", contentType)
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("%s: %s %s", path, resp.Status, answer)
	}
	return json.Unmarshal(answer, into)
}

func formOf(file []byte) ([]byte, string) {
	var b bytes.Buffer
	m := multipart.NewWriter(&b)
	part, err := m.CreatePart(textproto.MIMEHeader{"Content-Disposition": {`form-data; name="file"; filename="a.zip"`}, "Content-Type": {"application/zip"}})
	if err == nil {
		_, err = part.Write(file)
	}
	if err == nil {
		err = m.Close()
	}
	if err != nil {
		panic(err) // a buffer takes everything
	}
	return b.Bytes(), m.FormDataContentType()
}

// compareFiles alternates rounds of both. What a round left in the directories is
// removed before the next.
func (w *world) compareFiles(ctx context.Context, name string, ours, limit exchangeOf, least float64, dirs ...string) error {
	for _, warmUp := range []exchangeOf{ours, limit} {
		if _, err := warmUp.repeat(ctx, time.Second); err != nil {
			return err
		}
	}
	var ratios, rates, limits []float64
	var used, limitUsed []processorUse
	for range uploadRounds {
		a, err := ours.repeat(ctx, w.uploads)
		if err != nil {
			return err
		}
		b, err := limit.repeat(ctx, w.uploads)
		if err != nil {
			return err
		}
		rates, limits, ratios = append(rates, a.perSecond), append(limits, b.perSecond), append(ratios, a.perSecond/b.perSecond)
		used, limitUsed = append(used, a.processor), append(limitUsed, b.processor)
		for _, dir := range dirs {
			if err := empty(dir); err != nil {
				return err
			}
		}
	}
	middle := func(of []float64) float64 { return slices.Sorted(slices.Values(of))[len(of)/2] }
	fmt.Printf("   %-20s %.0f/s, net/http %.0f/s: %.2f (>= %.1f) %s\n", name, middle(rates), middle(limits), middle(ratios), least, verdict(middle(ratios) >= least))
	fmt.Printf("   %20s processor: %s; net/http: %s\n", "", eachFile(used), eachFile(limitUsed))
	return nil
}

// eachFile says how much processor time a file took in the median round.
func eachFile(rounds []processorUse) string {
	middle := func(of func(processorUse) time.Duration) float64 {
		all := make([]time.Duration, len(rounds))
		for i, u := range rounds {
			all[i] = of(u)
		}
		slices.Sort(all)
		return float64(all[len(all)/2]) / float64(time.Millisecond)
	}
	return fmt.Sprintf("%.2f ms a file (server %.2f, PostgreSQL %.2f, load %.2f), %.2f idle", middle(processorUse.sum),
		middle(func(u processorUse) time.Duration { return u.servers }), middle(func(u processorUse) time.Duration { return u.postgres }),
		middle(func(u processorUse) time.Duration { return u.load }), middle(func(u processorUse) time.Duration { return u.idle }))
}

// empty removes the files below dir, and keeps the directories.
func empty(dir string) error {
	if dir == "" {
		return nil
	}
	return filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		return os.Remove(path)
	})
}

// exchangeOf is a request that workers send again and again, each over a connection of
// its own, and the answer that is expected: a status, and so many bytes at least.
type exchangeOf struct {
	address       string
	request, body []byte
	status, least int
}

func (e exchangeOf) repeat(ctx context.Context, d time.Duration) (rate, error) {
	return inParallel(uploadConns, d, func(until time.Time) ([]time.Duration, error) {
		var dialer net.Dialer
		conn, err := dialer.DialContext(ctx, "tcp", e.address)
		if err != nil {
			return nil, err
		}
		defer func() { _ = conn.Close() }()
		answers := bufio.NewReaderSize(conn, 64<<10)
		return timed(until, func() error {
			// A copy: writing consumes it.
			parts := net.Buffers{e.request, e.body}
			if _, err := parts.WriteTo(conn); err != nil {
				return err
			}
			h, err := readHead(answers)
			if err != nil {
				return err
			}
			if h.status != e.status || h.length < e.least {
				said, _ := answers.Peek(min(max(h.length, 0), 300))
				return fmt.Errorf("answered %d with %d bytes where %d was expected: %s", h.status, h.length, e.status, said)
			}
			_, err = answers.Discard(h.length)
			return err
		})
	})
}

// serveFiles runs this program as a plain server of files in dir, and returns its
// address.
func (w *world) serveFiles(ctx context.Context, dir string) (string, error) {
	return w.runSelf(ctx, envFiles+"="+dir)
}

// runFiles is that server. It says its address on standard output.
func runFiles(ctx context.Context, dir string) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	mux := http.NewServeMux()
	mux.HandleFunc("POST /up", func(w http.ResponseWriter, r *http.Request) {
		if err := keepFile(dir, r.Body); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusCreated)
	})
	mux.HandleFunc("GET /down", func(w http.ResponseWriter, r *http.Request) {
		f, err := os.Open(filepath.Join(dir, "down"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		defer func() { _ = f.Close() }()
		w.Header().Set("Content-Type", "application/zip")
		http.ServeContent(w, r, "", time.Time{}, f)
	})
	return servePlainly(ctx, mux)
}

// keepFile copies a body into a new file, and makes the file and its name durable.
func keepFile(dir string, body io.Reader) error {
	f, err := os.CreateTemp(dir, "up-*")
	if err != nil {
		return err
	}
	if _, err := io.Copy(f, body); err != nil {
		return errors.Join(err, f.Close())
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
