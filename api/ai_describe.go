package api

import (
	"encoding/json"

	"github.com/danielgtaylor/huma/v2"
)

// What calls look like. Their bodies are OpenAI's, of which only what matters here is
// described.
const (
	chatRequestExample = `{"model":"echo","messages":[{"role":"user","content":"Hello there"}]}`
	chatExample        = `{"id":"echo","object":"chat.completion","created":1767366245,"model":"echo","choices":[{"index":0,"message":{"role":"assistant","content":"Hello there"},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":2,"completion_tokens":2,"total_tokens":4}}`
	chatStreamExample  = "data: {\"id\":\"echo\",\"object\":\"chat.completion.chunk\",\"created\":1767366245,\"model\":\"echo\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hello\"},\"finish_reason\":null}]}\n\ndata: [DONE]\n\n"

	embeddingsRequestExample = `{"model":"echo","input":"Hello there"}`
	embeddingsExample        = `{"object":"list","model":"echo","data":[{"object":"embedding","index":0,"embedding":[0.12,-0.34]}],"usage":{"prompt_tokens":2,"total_tokens":2}}`
)

// aiMembers are those of every call.
func aiMembers(more map[string]*huma.Schema) map[string]*huma.Schema {
	more["model"] = &huma.Schema{Type: huma.TypeString, MinLength: new(1), Description: "One of GET /api/ai/v1/models.", Examples: []any{"echo"}}
	return more
}

func chatBody() *huma.RequestBody {
	tokens := func(what string) *huma.Schema {
		return &huma.Schema{Type: huma.TypeInteger, Minimum: new(1.0), Nullable: true, Description: what}
	}
	return aiBody(chatRequestExample, &huma.Schema{
		Type: huma.TypeObject, AdditionalProperties: true, Required: []string{"messages", "model"},
		Description: "Whatever OpenAI's chat completions take; other members are passed on.",
		Properties: aiMembers(map[string]*huma.Schema{
			"messages": {Type: huma.TypeArray, MinItems: new(1), Description: "The conversation.", Items: &huma.Schema{
				Type: huma.TypeObject, AdditionalProperties: true, Required: []string{"role"},
				Properties: map[string]*huma.Schema{
					"role":    {Type: huma.TypeString, Examples: []any{"user"}, Description: "system, developer, user, assistant or tool."},
					"content": {Description: "A text, or a list of parts, of which some may be images."},
				},
			}},
			"stream":                {Type: huma.TypeBoolean, Nullable: true, Description: "Answer in pieces, as server-sent events."},
			"stream_options":        {Type: huma.TypeObject, Nullable: true, AdditionalProperties: true, Description: "With include_usage the last chunk says what was used."},
			"max_tokens":            tokens("The most tokens that the answer may have."),
			"max_completion_tokens": tokens("The same, under its newer name."),
			"n":                     {Type: huma.TypeInteger, Nullable: true, Minimum: new(1.0), Maximum: new(1.0), Description: "Answers; only 1 is possible."},
		}),
	})
}

func embeddingsBody() *huma.RequestBody {
	return aiBody(embeddingsRequestExample, &huma.Schema{
		Type: huma.TypeObject, AdditionalProperties: true, Required: []string{"input", "model"},
		Description: "Whatever OpenAI's embeddings take; other members are passed on.",
		Properties:  aiMembers(map[string]*huma.Schema{"input": {Description: "A text, or a list of texts or of tokens.", Examples: []any{"Hello there"}}}),
	})
}

func aiBody(example string, schema *huma.Schema) *huma.RequestBody {
	schema.PrecomputeMessages()
	return &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"application/json": {Schema: schema, Example: json.RawMessage(example)}}}
}
