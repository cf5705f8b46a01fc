package api_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waypost/waypost/internal/fault"
)

func TestAnExportIsALinePerEntry(t *testing.T) {
	t.Parallel()
	h := serveAudit(t, &auditLog{size: 3})
	for query, want := range map[string]string{
		"":            "{\"seq\":1}\n{\"seq\":2}\n{\"seq\":3}\n",
		"?from_seq=3": "{\"seq\":3}\n",
		"?from_seq=4": "",
	} {
		a := askAudit(t, h, "GET", "/api/admin/audit/export"+query, "", "ADMIN")
		got := []any{a.status, a.header.Get("Content-Type"), a.header.Get("Content-Disposition"), a.text}
		if diff := cmp.Diff([]any{200, "application/x-ndjson", `attachment; filename="audit.ndjson"`, want}, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", query, diff)
		}
	}
}

func TestTheHeadOfAnExportExportsNothing(t *testing.T) {
	t.Parallel()
	l := &auditLog{size: 3, export: func(context.Context, int64, io.Writer) (int64, error) {
		t.Error("exported")
		return 0, nil
	}}
	a := askAudit(t, serveAudit(t, l), "HEAD", "/api/admin/audit/export", "", "ADMIN")
	if a.status != 200 || a.header.Get("Content-Type") != "application/x-ndjson" {
		t.Errorf("%d %v", a.status, a.header)
	}
}

func TestAnExportThatFailsBeforeItsFirstLineIsAnsweredAsAnyFailure(t *testing.T) {
	t.Parallel()
	busy := fault.New(fault.Unavailable, fault.CodeBusy, "Come back.").After(time.Second)
	for _, c := range []struct {
		err    error
		status int
		code   string
	}{{busy, 503, "busy"}, {errors.New("no such relation"), 500, "internal_error"}} {
		l := &auditLog{export: func(context.Context, int64, io.Writer) (int64, error) { return 0, c.err }}
		a := askAudit(t, serveAudit(t, l), "GET", "/api/admin/audit/export", "", "ADMIN")
		a.wants(t, c.code, c.status, c.code)
		if strings.Contains(a.text, "relation") || a.header.Get("Content-Disposition") != "" {
			t.Errorf("%v %s", a.header, a.text)
		}
	}
}

// exportOver asks over TCP, compressed if that is wanted, and returns the whole body.
func exportOver(t *testing.T, l *auditLog, compressed bool) (string, error) {
	t.Helper()
	server := httptest.NewUnstartedServer(serveAudit(t, l))
	server.Config.WriteTimeout = 150 * time.Millisecond // half as long as the longest export
	server.Start()
	t.Cleanup(server.Close)
	r, err := http.NewRequestWithContext(t.Context(), "GET", server.URL+"/api/admin/audit/export", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer ADMIN")
	if !compressed {
		r.Header.Set("Accept-Encoding", "identity")
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	return string(text), err
}

func TestAnExportThatFailsLaterIsCut(t *testing.T) {
	t.Parallel()
	line := strings.Repeat(" ", 200) + "{}\n"
	for _, compressed := range []bool{false, true} {
		l := &auditLog{export: func(_ context.Context, _ int64, w io.Writer) (int64, error) {
			for range 1000 {
				if _, err := io.WriteString(w, line); err != nil {
					return 0, err
				}
			}
			return 0, errors.New("the database went away")
		}}
		if text, err := exportOver(t, l, compressed); err == nil {
			t.Errorf("compressed %v: %d bytes, as if they were all", compressed, len(text))
		}
	}
}

func TestAnExportMayTakeLongerThanAnyRequest(t *testing.T) {
	t.Parallel()
	l := &auditLog{export: func(ctx context.Context, _ int64, w io.Writer) (int64, error) {
		if _, err := io.WriteString(w, "first\n"+strings.Repeat(" ", 4096)+"\n"); err != nil {
			return 0, err
		}
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(300 * time.Millisecond): // three times a request's
		}
		_, err := io.WriteString(w, "last\n")
		return 2, err
	}}
	for _, compressed := range []bool{false, true} {
		text, err := exportOver(t, l, compressed)
		if !strings.HasPrefix(text, "first\n") || !strings.HasSuffix(text, "\nlast\n") || err != nil {
			t.Errorf("compressed %v: %d bytes, %v", compressed, len(text), err)
		}
	}
}

func TestAnExportEndsWhenItsClientHasGone(t *testing.T) {
	t.Parallel()
	ended := make(chan error, 1)
	begun := make(chan struct{})
	l := &auditLog{export: func(ctx context.Context, _ int64, _ io.Writer) (int64, error) {
		close(begun)
		<-ctx.Done()
		ended <- ctx.Err()
		return 0, ctx.Err()
	}}
	ctx, leave := context.WithCancel(t.Context())
	r := httptest.NewRequestWithContext(ctx, "GET", "/api/admin/audit/export", nil)
	r.Header.Set("Authorization", "Bearer ADMIN")
	h := serveAudit(t, l)
	go h.ServeHTTP(httptest.NewRecorder(), r)
	<-begun
	leave()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
