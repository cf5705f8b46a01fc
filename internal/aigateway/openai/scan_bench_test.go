package openai_test

import (
	"testing"

	"github.com/waypost/waypost/internal/aigateway/openai"
)

func BenchmarkScan(b *testing.B) {
	chunk := []byte(`{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"small-1","system_fingerprint":"fp_1","choices":[{"index":0,"delta":{"content":" pattern"},"logprobs":null,"finish_reason":null}]}`)
	var s openai.Scanner
	for b.Loop() {
		if _, err := s.Scan(chunk); err != nil {
			b.Fatal(err)
		}
	}
}
