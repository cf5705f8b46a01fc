// Command openai-go is OpenAI's official Go client against the AI gateway: BASE_URL and
// KEY are all that it is told. It ends with status 1 at the first thing that is not as
// its users expect.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

const text = "The engine weaves algebraic patterns."

var messages = []openai.ChatCompletionMessageParamUnion{openai.UserMessage("How does the engine weave?")}

func main() {
	ctx := context.Background()
	client := openai.NewClient(option.WithBaseURL(os.Getenv("BASE_URL")), option.WithAPIKey(os.Getenv("KEY")), option.WithMaxRetries(0))
	for _, step := range []func(context.Context, openai.Client) error{models, chats, streams, toolCalls, vectors, failures} {
		if err := step(ctx, client); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	fmt.Println("as expected")
}

func models(ctx context.Context, c openai.Client) error {
	list, err := c.Models.List(ctx)
	if err != nil || !slices.ContainsFunc(list.Data, func(m openai.Model) bool { return m.ID == "claude" }) {
		return fmt.Errorf("models: %w, %+v", err, list)
	}
	return nil
}

func chats(ctx context.Context, c openai.Client) error {
	for _, model := range []string{"fine", "claude", "flaky", "slow", "no-usage"} {
		got, err := c.Chat.Completions.New(ctx, openai.ChatCompletionNewParams{Model: model, Messages: messages, MaxCompletionTokens: openai.Int(100)})
		if err != nil || got.Choices[0].Message.Content != text || model != "no-usage" && got.Usage.TotalTokens != 12 {
			return fmt.Errorf("%s: %w, %+v", model, err, got)
		}
	}
	return nil
}

func streams(ctx context.Context, c openai.Client) error {
	for _, model := range []string{"fine", "claude"} {
		s := c.Chat.Completions.NewStreaming(ctx, openai.ChatCompletionNewParams{
			Model: model, Messages: messages, StreamOptions: openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)},
		})
		var all openai.ChatCompletionAccumulator
		for s.Next() {
			all.AddChunk(s.Current())
		}
		if err := s.Err(); err != nil || all.Choices[0].Message.Content != text || all.Usage.TotalTokens != 12 {
			return fmt.Errorf("a stream of %s: %w, %+v", model, err, all)
		}
	}
	return nil
}

func toolCalls(ctx context.Context, c openai.Client) error {
	for _, model := range []string{"tool", "claude-tool"} {
		params := openai.ChatCompletionNewParams{Model: model, Messages: messages, Tools: []openai.ChatCompletionToolUnionParam{
			openai.ChatCompletionFunctionTool(openai.FunctionDefinitionParam{Name: "weather", Parameters: openai.FunctionParameters{"type": "object"}}),
		}}
		whole, err := c.Chat.Completions.New(ctx, params)
		if err != nil {
			return fmt.Errorf("a tool of %s: %w", model, err)
		}
		s := c.Chat.Completions.NewStreaming(ctx, params)
		var all openai.ChatCompletionAccumulator
		for s.Next() {
			all.AddChunk(s.Current())
		}
		for _, got := range []openai.ChatCompletion{*whole, all.ChatCompletion} {
			if calls := got.Choices[0].Message.ToolCalls; len(calls) != 1 || calls[0].Function.Arguments != `{"city":"Paris"}` {
				return fmt.Errorf("a tool of %s: %w, %+v", model, s.Err(), got)
			}
		}
	}
	return nil
}

func vectors(ctx context.Context, c openai.Client) error {
	got, err := c.Embeddings.New(ctx, openai.EmbeddingNewParams{Model: "fine", Input: openai.EmbeddingNewParamsInputUnion{OfString: openai.String("a")}})
	if err != nil || !slices.Equal(got.Data[0].Embedding, []float64{0.5, -0.5}) {
		return fmt.Errorf("embeddings: %w, %+v", err, got)
	}
	return nil
}

func failures(ctx context.Context, c openai.Client) error {
	for model, want := range map[string]string{
		"unknown": "model_not_found", "editors": "model_not_allowed", "busy": "upstream_error", "broken": "upstream_error", "quoting": "upstream_error",
		"claude-quoting": "upstream_error", "refusing": "upstream_refused", "silent": "upstream_timeout",
	} {
		_, err := c.Chat.Completions.New(ctx, openai.ChatCompletionNewParams{Model: model, Messages: messages})
		failed, ok := errors.AsType[*openai.Error](err)
		if !ok || failed.Code != want || strings.Contains(err.Error(), "sk-of-the-upstream") {
			return fmt.Errorf("%s: %w, not %s", model, err, want)
		}
	}
	for _, model := range []string{"cut", "malformed", "hangs", "claude-cut", "claude-malformed"} {
		s := c.Chat.Completions.NewStreaming(ctx, openai.ChatCompletionNewParams{Model: model, Messages: messages})
		pieces := 0
		for s.Next() {
			pieces++
		}
		if s.Err() == nil || !strings.Contains(s.Err().Error(), "The model's service") {
			return fmt.Errorf("%s: after %d pieces: %w", model, pieces, s.Err())
		}
	}
	return nil
}
