package config

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// Telemetry are the settings of metrics and traces. Those of traces have the names that
// OpenTelemetry gives them.
type Telemetry struct {
	MetricsAddr  string `env:"WAYPOST_METRICS_ADDR" flag:"metrics-addr" for:"server" help:"Address of a listener of its own that answers GET /metrics and nothing else, such as 127.0.0.1:9100; asks for WAYPOST_METRICS_TOKEN if that is set"`
	MetricsToken string `env:"WAYPOST_METRICS_TOKEN" help:"Bearer token for GET /metrics, 16 characters or more; while it is not set, the service's own address has no such path"`

	OTLPEndpoint string  `env:"OTEL_EXPORTER_OTLP_ENDPOINT" help:"Base URL of an OpenTelemetry receiver (OTLP over HTTP, often port 4318); traces are sent to its path /v1/traces, and without it none are made"`
	OTLPHeaders  string  `env:"OTEL_EXPORTER_OTLP_HEADERS" help:"Headers for the receiver, such as a key: name=value, separated by commas, percent-encoded"`
	OTLPProtocol string  `env:"OTEL_EXPORTER_OTLP_PROTOCOL" help:"http/protobuf, which is the only one that this program speaks"`
	ServiceName  string  `env:"OTEL_SERVICE_NAME" envDefault:"waypost" help:"The service's name in traces"`
	TraceRatio   float64 `env:"OTEL_TRACES_SAMPLER_ARG" envDefault:"1" help:"Share, 0 to 1, of the traces beginning here that are kept; a trace that began elsewhere is kept if it is kept there"`
}

// minMetricsToken is the least length of WAYPOST_METRICS_TOKEN in bytes.
const minMetricsToken = 16

func (t Telemetry) validate() error {
	var errs []error
	if t.MetricsToken != "" && len(t.MetricsToken) < minMetricsToken {
		errs = append(errs, fmt.Errorf("WAYPOST_METRICS_TOKEN is weak: it has fewer than %d characters", minMetricsToken))
	}
	if u, err := url.Parse(t.OTLPEndpoint); t.OTLPEndpoint != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
		errs = append(errs, errors.New("OTEL_EXPORTER_OTLP_ENDPOINT is not an absolute http(s) URL"))
	}
	if t.OTLPEndpoint != "" && !slices.Contains([]string{"", "http/protobuf"}, t.OTLPProtocol) {
		errs = append(errs, fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL is %q, and this program speaks http/protobuf alone: give the endpoint of that, often port 4318", t.OTLPProtocol))
	}
	if _, err := t.Headers(); err != nil {
		errs = append(errs, err)
	}
	if !(t.TraceRatio >= 0 && t.TraceRatio <= 1) {
		errs = append(errs, errors.New("OTEL_TRACES_SAMPLER_ARG must be from 0 to 1"))
	}
	return errors.Join(errs...)
}

// Headers reads OTLPHeaders. The error shows no value: it may be a key.
func (t Telemetry) Headers() (map[string]string, error) {
	headers := map[string]string{}
	for pair := range strings.SplitSeq(t.OTLPHeaders, ",") {
		name, value, ok := strings.Cut(pair, "=")
		name = strings.TrimSpace(name)
		if strings.TrimSpace(pair) == "" {
			continue
		}
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if !ok || err != nil || name == "" || strings.ContainsAny(name, " \t\r\n:") || strings.ContainsAny(value, "\r\n\x00") {
			return nil, errors.New("OTEL_EXPORTER_OTLP_HEADERS is not a list of name=value, separated by commas")
		}
		headers[name] = value
	}
	return headers, nil
}
