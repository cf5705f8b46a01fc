package app_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/internal/account"
	"github.com/waypost/waypost/internal/app"
	"github.com/waypost/waypost/internal/config"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/jobs"
	"github.com/waypost/waypost/internal/webhook"
)

const (
	secret   = "a payment secret"
	password = "correct horse battery staple"
)

// compose starts a whole service with bindings and signs its ADMIN in.
func compose(t *testing.T, bindings ...webhook.Binding) (*httptest.Server, string) {
	t.Helper()
	return composeWith(t, app.Extensions{Bindings: bindings})
}

// composeWith starts a whole service with extensions and signs its ADMIN in.
func composeWith(t *testing.T, x app.Extensions) (*httptest.Server, string) {
	t.Helper()
	d := dbtest.New(t)
	c, err := config.Read([]string{"WAYPOST_URL=https://waypost.example", "WAYPOST_SECRET_KEY=a secret key for tests, longer than 32 bytes"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	a, err := app.New(t.Context(), app.Options{
		Config: c, Areas: db.Undivided(d), Logger: slog.New(slog.DiscardHandler), Extensions: x,
		LookupSecret: func(name string) string { return map[string]string{"PAYMENT_WEBHOOK_SECRET": secret}[name] },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	server := httptest.NewServer(a.Handler())
	t.Cleanup(server.Close)
	accounts, err := account.New(account.Options{DB: d})
	if err != nil {
		t.Fatal(err)
	}
	_, err = accounts.Create(t.Context(), account.NewUser{FirstName: "Ro", LastName: "Ot", Email: "root@example.com", Password: password, Role: identity.Admin})
	if err != nil {
		t.Fatal(err)
	}
	var in struct {
		Data struct {
			AccessToken string `json:"access_token"`
		}
	}
	send(t, server, "POST", "/api/auth/login", fmt.Sprintf(`{"email":"root@example.com","password":%q}`, password), &in)
	return server, in.Data.AccessToken
}

// send returns the status and decodes the body into out.
func send(t *testing.T, s *httptest.Server, method, path, body string, out any, header ...string) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	res, err := s.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, out); err != nil {
		t.Fatalf("%s %s: %d %s", method, path, res.StatusCode, b)
	}
	return res.StatusCode
}

func signed(body string) string {
	now := time.Now().Unix()
	h := hmac.New(sha256.New, []byte(secret))
	fmt.Fprintf(h, "%d.%s", now, body)
	return fmt.Sprintf("t=%d,v1=%s", now, hex.EncodeToString(h.Sum(nil)))
}

func TestAFailingHandlerKeepsTheDeliveryForReplay(t *testing.T) {
	t.Parallel()
	var broken atomic.Bool
	broken.Store(true)
	server, token := compose(t, webhook.Handle("payment", "", func(context.Context, *webhook.Delivery) error {
		if broken.Load() {
			return errors.New("the ledger is locked")
		}
		return nil
	}))
	const body = `{"id":"evt_1","type":"payment.succeeded"}`
	type answer = map[string]any
	var first, again answer
	if status := send(t, server, "POST", "/webhooks/payment", body, &first, "Payment-Signature", signed(body)); status != 200 {
		t.Fatalf("%d %v", status, first)
	}
	id, _ := first["id"].(string)
	if diff := cmp.Diff(answer{"status": "failed", "id": id}, first); diff != "" || id == "" {
		t.Errorf("the handler's error is the operator's business: %s", diff)
	}
	send(t, server, "POST", "/webhooks/payment", body, &again, "Payment-Signature", signed(body))
	if diff := cmp.Diff(answer{"status": "skipped", "reason": "duplicate", "id": id}, again); diff != "" {
		t.Error(diff)
	}
	auth := []string{"Authorization", "Bearer " + token}
	var list struct{ Data []answer }
	send(t, server, "GET", "/api/admin/webhooks?status=failed", "", &list, auth...)
	if len(list.Data) != 1 || list.Data[0]["handler_error"] != "the ledger is locked" {
		t.Errorf("the list: %v", list.Data)
	}
	for i, want := range []answer{{"status": "failed", "retry_count": 1.0}, {"status": "processed", "retry_count": 2.0}} {
		broken.Store(i == 0)
		var replayed struct{ Data answer }
		if status := send(t, server, "POST", "/api/admin/webhooks/"+id+"/replay", "", &replayed, auth...); status != 200 {
			t.Fatalf("replay: %d %v", status, replayed)
		}
		kept := cmpopts.IgnoreMapEntries(func(name string, _ any) bool { return name != "status" && name != "retry_count" })
		if diff := cmp.Diff(want, replayed.Data, kept); diff != "" {
			t.Errorf("replay %d: %s", i+1, diff)
		}
	}
	var refused struct{ Error struct{ Code string } }
	if status := send(t, server, "POST", "/api/admin/webhooks/"+id+"/replay", "", &refused, auth...); status != 409 || refused.Error.Code != "not_replayable" {
		t.Errorf("a processed event: %d %v", status, refused)
	}
}

// greetJob is a kind of job of a fork's own.
type greetJob struct {
	Name string `json:"name"`
}

func (greetJob) Kind() string { return "greetings.send" }

func TestBackgroundWorkOfAForkRunsByItselfAndWorksItsOwnJobs(t *testing.T) {
	t.Parallel()
	greeted := make(chan string, 1)
	composeWith(t, app.Extensions{
		Periodic: func(s *app.Services) []jobs.Periodic {
			return []jobs.Periodic{{Name: "greetings.queue", Every: time.Hour, Run: func(ctx context.Context) (int, error) {
				return 1, s.DB.InTx(ctx, identity.System("greetings"), func(ctx context.Context, tx pgx.Tx) error {
					return s.Queue.Insert(ctx, tx, greetJob{Name: "Ada"})
				})
			}}}
		},
		Workers: func(*app.Services) []jobs.Worker {
			return []jobs.Worker{jobs.Work(func(_ context.Context, j greetJob) error {
				greeted <- j.Name
				return nil
			}, jobs.Limits{})}
		},
	})
	select {
	case name := <-greeted:
		if name != "Ada" {
			t.Errorf("greeted %q", name)
		}
	case <-time.After(time.Minute):
		t.Error("nobody was greeted")
	}
}
