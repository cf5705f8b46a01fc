package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSettingsOfTracesAreReadAsOpenTelemetryHasThem(t *testing.T) {
	t.Parallel()
	c, err := Read([]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://collector:4318", "OTEL_EXPORTER_OTLP_HEADERS=api-key=a%20key%2C, x=y=z ,", "OTEL_TRACES_SAMPLER_ARG=0.25", "OTEL_SERVICE_NAME=payments",
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	headers, err := c.Telemetry.Headers()
	if diff := cmp.Diff(map[string]string{"api-key": "a key,", "x": "y=z"}, headers); err != nil || diff != "" || c.Telemetry.TraceRatio != .25 || c.Telemetry.ServiceName != "payments" {
		t.Errorf("%v %s %+v", err, diff, c.Telemetry)
	}
	for setting, name := range map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT=collector:4318":     "OTEL_EXPORTER_OTLP_ENDPOINT",
		"OTEL_EXPORTER_OTLP_PROTOCOL=grpc":               "OTEL_EXPORTER_OTLP_PROTOCOL",
		"OTEL_EXPORTER_OTLP_HEADERS=secretvalue":         "OTEL_EXPORTER_OTLP_HEADERS",
		"OTEL_EXPORTER_OTLP_HEADERS=a=secretvalue%0D%0A": "OTEL_EXPORTER_OTLP_HEADERS",
		"OTEL_TRACES_SAMPLER_ARG=2":                      "OTEL_TRACES_SAMPLER_ARG",
		"OTEL_TRACES_SAMPLER_ARG=NaN":                    "OTEL_TRACES_SAMPLER_ARG",
		"OTEL_TRACES_SAMPLER_ARG=half":                   "OTEL_TRACES_SAMPLER_ARG",
	} {
		_, err := Read([]string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://collector:4318", setting}, nil)
		if err == nil || !strings.Contains(err.Error(), name) || strings.Contains(err.Error(), "secretvalue") {
			t.Errorf("%s: %v", setting, err)
		}
	}
}
