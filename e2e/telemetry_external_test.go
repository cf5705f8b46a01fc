//go:build external

package e2e_test

import (
	"encoding/json"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/e2e/outside"
)

// Prometheus and promtool are Debian's.
func TestPrometheusScrapesTheMetricsCleanly(t *testing.T) {
	t.Parallel()
	p := startServe(t, dbtest.NewURL(t).App, "WAYPOST_METRICS_ADDR=127.0.0.1:0", "PAYMENT_WEBHOOK_SECRET="+outside.PaymentSecret)
	const body = `{"id":"evt_1","type":"order.paid"}`
	if a := outside.Do(t, "POST", p.url+"/webhooks/payment", body, "Payment-Signature", outside.PaymentSignature(outside.PaymentSecret, body)); a.Status != 200 {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	outside.Do(t, "GET", p.url+"/nothing", "")
	own := metricsURL(t, p)
	lint := exec.CommandContext(t.Context(), "promtool", "check", "metrics")
	lint.Stdin = strings.NewReader(string(outside.Do(t, "GET", own, "").Body))
	if out, err := lint.CombinedOutput(); err != nil {
		t.Errorf("promtool: %v\n%s", err, out)
	}

	at, err := url.Parse(own)
	if err != nil {
		t.Fatal(err)
	}
	dir := dbtest.TempDir(t)
	file := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(file, []byte("global: {scrape_interval: 1s}\nscrape_configs:\n  - {job_name: waypost, static_configs: [{targets: ['"+at.Host+"']}]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	_ = l.Close()
	log := newOutput()
	server := exec.CommandContext(t.Context(), "prometheus", "--config.file="+file, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+addr)
	server.Stdout, server.Stderr = log, log
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	})
	query := func(q string) string {
		res, err := http.Get("http://" + addr + "/api/v1/query?query=" + url.QueryEscape(q))
		if err != nil {
			return ""
		}
		defer res.Body.Close()
		var got struct {
			Data struct{ Result []struct{ Value [2]any } }
		}
		if json.NewDecoder(res.Body).Decode(&got) != nil || len(got.Data.Result) != 1 {
			return ""
		}
		value, _ := got.Data.Result[0].Value[1].(string)
		return value
	}
	p.waitFor(t, "a scrape", func() bool { return query(`up{job="waypost"}`) == "1" })
	for q, want := range map[string]string{
		`waypost_http_requests_total{method="POST",route="/webhooks/{provider}",status="2xx"}`:          "1",
		`waypost_http_request_seconds_bucket{method="POST",route="/webhooks/{provider}",le="+Inf"}`:     "1",
		`waypost_webhook_received_total{provider="payment"}`:                                            "1",
		`waypost_http_requests_total{method="GET",route="(no route)",status="4xx"}`:                     "1",
		`count({__name__=~"waypost_.+"}) > bool 100`:                                                    "1",
		`sum(scrape_samples_scraped{job="waypost"}) == bool sum(scrape_samples_post_metric_relabeling)`: "1",
	} {
		if got := query(q); got != want {
			t.Errorf("%s is %q, not %q", q, got, want)
		}
	}
	if said := log.String(); strings.Contains(said, "level=warn") && strings.Contains(said, "scrape") {
		t.Errorf("Prometheus complains: %s", said)
	}
}
