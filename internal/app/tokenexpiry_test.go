package app

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/internal/account"
	"github.com/waypost/waypost/internal/queue"
	"github.com/waypost/waypost/internal/webhook"
)

func TestTheReceiverOfAlertsIsToldWhichTokenExpires(t *testing.T) {
	t.Parallel()
	id := uuid.MustParse("01968a3e-8d40-4a52-8f66-2a7b8c9d0e1f")
	var got []string
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.Header.Get("Webhook-Id") != id.String() || r.Header.Get("Webhook-Signature") == "" {
			t.Errorf("%v %v", err, r.Header)
		}
		got = append(got, string(body))
	}))
	defer receiver.Close()
	registry, err := webhook.NewRegistry(webhook.BuiltIn())
	if err != nil {
		t.Fatal(err)
	}
	logger := slog.New(slog.DiscardHandler)
	jobs, err := queue.New(logger)
	if err != nil {
		t.Fatal(err)
	}
	alerts, err := webhook.NewAlerts(webhook.AlertOptions{
		DB: dbtest.New(t), Registry: registry, Logger: logger, Jobs: jobs, Streak: 5, URL: receiver.URL, Secret: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
	})
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)
	s := &Services{Alerts: alerts}
	err = s.postExpiry(t.Context(), account.TokenExpiry{
		ID: id, At: at, ServiceAccount: 12, AccountName: "Nightly export", Token: 7, TokenName: "bot", Prefix: "wp_3Jk8sQ2m", ExpiresAt: at.Add(24 * time.Hour),
	})
	if err != nil || len(got) != 1 {
		t.Fatalf("%v, %q", err, got)
	}
	var body map[string]any
	if err := json.Unmarshal([]byte(got[0]), &body); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"type": "waypost.token.expiring", "timestamp": "2026-01-02T15:04:05Z",
		"data": map[string]any{
			"service_account_id": 12.0, "service_account_name": "Nightly export", "token_id": 7.0, "token_name": "bot", "token_prefix": "wp_3Jk8sQ2m",
			"expires_at": "2026-01-03T15:04:05Z",
			"message":    `The API token "bot" of the service account "Nightly export" (wp_3Jk8sQ2m...) expires on 3 January 2026, 15:04 UTC.`,
		},
	}
	if diff := cmp.Diff(want, body); diff != "" {
		t.Error(diff)
	}
}
