package openai_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waypost/waypost/internal/aigateway/openai"
)

func TestChunksAreReadAsTheyAre(t *testing.T) {
	t.Parallel()
	none := openai.Nothing()
	chunk := func(delta string) string {
		return `{"id":"1","choices":[{"index":0,"delta":` + delta + `,"finish_reason":null}]}`
	}
	var s openai.Scanner
	for _, c := range []struct {
		in   string
		want openai.Contents
		err  error
	}{
		{chunk(`{"role":"assistant","content":""}`), openai.Contents{Stated: none, Choices: true}, nil},
		{chunk(`{"content":"The "}`), openai.Contents{Stated: none, Choices: true, Text: 4}, nil},
		{chunk(`{"content":"engine"}`), openai.Contents{Stated: none, Choices: true, Text: 6}, nil},
		{chunk(`{"content":"a\nb"}`), openai.Contents{Stated: none, Choices: true, Text: 3}, nil},
		{chunk(`{"content":"é"}`), openai.Contents{Stated: none, Choices: true, Text: 2}, nil},
		{chunk("{\"content\":\"a\nb\"}"), openai.Contents{}, openai.ErrMalformed},
		{chunk(`{"content":"x"}`), openai.Contents{Stated: none, Choices: true, Text: 1}, nil},
		{chunk("{\"content\":\"\xff\"}"), openai.Contents{}, openai.ErrMalformed},
		{chunk(`{"content":"x","reasoning":"because"}`), openai.Contents{Stated: none, Choices: true, Text: 8}, nil},
		{chunk(`{"tool_calls":[{"function":{"name":"f","arguments":"{}"}}]}`), openai.Contents{Stated: none, Choices: true, Text: 3}, nil},
		{`{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":4}}`, openai.Contents{Stated: openai.Stated{Input: 3, Output: 4}, Usage: true}, nil},
		{`{"choices":[],"usage":null}`, openai.Contents{Stated: none}, nil},
		{`{"choices":[],"usage":{"prompt_tokens":-3,"completion_tokens":1e99}}`, openai.Contents{Stated: none, Usage: true}, nil},
		{`{"error":{"message":"no"}}`, openai.Contents{}, openai.ErrReported},
		{`{"error":null,"choices":[]}`, openai.Contents{Stated: none}, nil},
		{`{"choices":{}}`, openai.Contents{}, openai.ErrMalformed},
		{`[]`, openai.Contents{}, openai.ErrMalformed}, {``, openai.Contents{}, openai.ErrMalformed}, {`{} {}`, openai.Contents{}, openai.ErrMalformed}, {`{"choices":[`, openai.Contents{}, openai.ErrMalformed},
	} {
		got, err := s.Scan([]byte(c.in))
		if !errors.Is(err, c.err) || err == nil && !cmp.Equal(got, c.want) {
			t.Errorf("%s: %+v, %v", c.in, got, err)
		}
	}
}

// FuzzScan: what was read before changes nothing, and what is cut off is never whole.
func FuzzScan(f *testing.F) {
	f.Add(`{"choices":[{"delta":{"content":"a"}}]}`, `{"choices":[{"delta":{"content":"bc"}}]}`)
	f.Add(`{"choices":[{"delta":{"content":"a"}}],"x":1}`, `{"choices":[{"delta":{"content":"b","content":"c"}}],"x":1}`)
	f.Add(`{"a":"\"content\":\"","choices":[{"content":"x"}]}`, `{"choices":[],"usage":{"prompt_tokens":1}}`)
	f.Fuzz(func(t *testing.T, before, in string) {
		var used, fresh openai.Scanner
		_, _ = used.Scan([]byte(before))
		a, errA := used.Scan([]byte(in))
		b, errB := fresh.Scan([]byte(in))
		if fmt.Sprint(errA) != fmt.Sprint(errB) || errA == nil && a != b {
			t.Fatalf("after %q, %q is %+v, %v; by itself %+v, %v", before, in, a, errA, b, errB)
		}
		if errB == nil {
			if _, err := fresh.Scan([]byte(in[:len(in)-1])); err == nil && in[len(in)-1] == '}' {
				t.Fatalf("%q is whole without its end", in)
			}
		}
	})
}
