//go:build external

package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/e2e/outside"
	"github.com/waypost/waypost/internal/mail/smtptest"
)

// received is a mail as maildev shows it.
type received struct {
	Subject, Text, HTML string
	From                []struct{ Address, Name string }
	To                  []struct{ Address string }
	Headers             map[string]any
}

// freeAddress is one of this machine where nobody listens.
func freeAddress(t *testing.T) (host, port string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	host, port, err = net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return host, port
}

// startMaildev starts the server, and returns its SMTP port and the URL of its API.
func startMaildev(t *testing.T) (port, api string) {
	t.Helper()
	dir := npmInstalled(t, filepath.Join("..", "tools", "npm", "mail"))
	host, port := freeAddress(t)
	_, web := freeAddress(t)
	ctx, stop := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, "node", filepath.Join("node_modules", "maildev", "bin", "maildev"),
		"--ip", host, "--smtp", port, "--web", web, "--web-ip", host, "--mail-directory", t.TempDir())
	cmd.Dir = dir
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stop()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("maildev: %s", tail(out.String(), 4000))
		}
	})
	return port, "http://" + net.JoinHostPort(host, web)
}

// mailsAt are the mails that maildev received; none while it is not there.
func mailsAt(t *testing.T, api string) []received {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, api+"/email", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	var list []received
	if err := json.Unmarshal(body, &list); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	return list
}

func TestARealMailServerReadsWhatWasSent(t *testing.T) {
	t.Parallel()
	port, api := startMaildev(t)
	urls := dbtest.NewURL(t)
	p := startServe(t, urls.App, "WAYPOST_SMTP_HOST=127.0.0.1", "WAYPOST_SMTP_PORT="+port, "WAYPOST_SMTP_TLS=none", "WAYPOST_MAIL_FROM=Wäypost <waypost@sender.example>")
	body := `{"first_name":"Zoë 你好","last_name":"Lovelace","email":"ada@example.com","password":"correct horse battery staple"}`
	if a := outside.Do(t, "POST", p.url+"/api/auth/register", body, "Content-Type", "application/json"); a.Status != 201 {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	owner := connect(t, urls.Owner)
	var list []received
	p.waitFor(t, "mail at maildev", func() bool {
		bringForward(t, owner) // it may have been slower to start
		time.Sleep(100 * time.Millisecond)
		list = mailsAt(t, api)
		return len(list) == 1
	})
	m := list[0]
	if m.Subject != "Confirm your e-mail address (waypost.example)" || !strings.HasPrefix(m.Text, "Hello Zoë 你好,") || !strings.Contains(m.HTML, "Hello Zoë 你好,") {
		t.Errorf("%+v", m)
	}
	if m.From[0].Name != "Wäypost" || m.From[0].Address != "waypost@sender.example" || m.To[0].Address != "ada@example.com" || m.Headers["auto-submitted"] != "auto-generated" {
		t.Errorf("%+v", m)
	}
	link := linkOf(t, p, smtptest.Mail{Text: m.Text, HTML: m.HTML})
	if a := submit(t, link, "password", "correct horse battery staple"); a.Status != 200 || !bytesContain(a.Body, "is confirmed") {
		t.Errorf("the link: %d %s", a.Status, a.Body)
	}
}
