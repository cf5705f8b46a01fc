package anthropic

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

// chatMessage is one of OpenAI's.
type chatMessage struct {
	Role       string          `json:"role"`
	Content    json.RawMessage `json:"content"`
	ToolCallID string          `json:"tool_call_id"`
	ToolCalls  []struct {
		ID       string `json:"id"`
		Function struct {
			Name      string `json:"name"`
			Arguments string `json:"arguments"`
		} `json:"function"`
	} `json:"tool_calls"`
}

// takeMessages translates the conversation. Instructions of the system stand before it;
// messages of one side that follow each other become one.
func (r *request) takeMessages(v json.RawMessage) error {
	var list []chatMessage
	if json.Unmarshal(v, &list) != nil {
		return wrong("messages", "Must be a list of messages.")
	}
	var system []string
	for i, m := range list {
		param := fmt.Sprintf("messages[%d]", i)
		blocks, err := blocksOf(m.Content, param)
		if err != nil {
			return err
		}
		switch m.Role {
		case "system", "developer":
			text, err := textOf(blocks, param)
			if err != nil {
				return err
			}
			system = append(system, text)
		case "user":
			r.say("user", blocks)
		case "assistant":
			for _, call := range m.ToolCalls {
				input := json.RawMessage(call.Function.Arguments)
				if strings.TrimSpace(call.Function.Arguments) == "" {
					input = json.RawMessage("{}")
				}
				var object map[string]json.RawMessage
				if json.Unmarshal(input, &object) != nil {
					return wrong(param+".tool_calls", "The arguments must be a JSON object.")
				}
				blocks = append(blocks, block{Type: "tool_use", ID: call.ID, Name: call.Function.Name, Input: input})
			}
			r.say("assistant", blocks)
		case "tool":
			r.say("user", []block{{Type: "tool_result", ToolUseID: m.ToolCallID, Content: blocks}})
		default:
			return wrong(param+".role", "Must be system, developer, user, assistant or tool.")
		}
	}
	r.System = strings.Join(system, "\n\n")
	return nil
}

func (r *request) say(role string, blocks []block) {
	if len(blocks) == 0 {
		return
	}
	if n := len(r.Messages); n > 0 && r.Messages[n-1].Role == role {
		r.Messages[n-1].Content = append(r.Messages[n-1].Content, blocks...)
		return
	}
	r.Messages = append(r.Messages, message{role, blocks})
}

func textOf(blocks []block, param string) (string, error) {
	var parts []string
	for _, b := range blocks {
		if b.Type != "text" {
			return "", wrong(param+".content", "Instructions of the system can only be text.")
		}
		parts = append(parts, b.Text)
	}
	return strings.Join(parts, "\n"), nil
}

// dataURL is a RFC 2397 URL of an image in base64.
var dataURL = regexp.MustCompile(`^data:(image/[a-z0-9.+-]+);base64,`)

// blocksOf translates a message's content: a text, a list of parts, or nothing.
func blocksOf(content json.RawMessage, param string) ([]block, error) {
	if len(content) == 0 || string(content) == "null" {
		return nil, nil
	}
	var text string
	if json.Unmarshal(content, &text) == nil {
		if text == "" {
			return nil, nil // which Messages refuses
		}
		return []block{{Type: "text", Text: text}}, nil
	}
	var parts []struct {
		Type     string `json:"type"`
		Text     string `json:"text"`
		Refusal  string `json:"refusal"`
		ImageURL struct {
			URL string `json:"url"`
		} `json:"image_url"`
	}
	if json.Unmarshal(content, &parts) != nil {
		return nil, wrong(param+".content", "Must be a text or a list of parts.")
	}
	var blocks []block
	for i, p := range parts {
		at := fmt.Sprintf("%s.content[%d]", param, i)
		switch p.Type {
		case "text", "refusal":
			if t := p.Text + p.Refusal; t != "" {
				blocks = append(blocks, block{Type: "text", Text: t})
			}
		case "image_url":
			s, err := imageOf(p.ImageURL.URL, at)
			if err != nil {
				return nil, err
			}
			blocks = append(blocks, block{Type: "image", Source: s})
		default:
			return nil, wrong(at, "This model takes text and images only.")
		}
	}
	return blocks, nil
}

func imageOf(address, param string) (*source, error) {
	if m := dataURL.FindStringSubmatch(address); m != nil {
		return &source{Type: "base64", MediaType: m[1], Data: address[len(m[0]):]}, nil
	}
	if strings.HasPrefix(address, "https://") || strings.HasPrefix(address, "http://") {
		return &source{Type: "url", URL: address}, nil
	}
	return nil, wrong(param, "Must be an http(s) URL, or a data URL of an image in base64.")
}
