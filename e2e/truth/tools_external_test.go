//go:build external

package truth_test

import (
	"bufio"
	"context"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/waypost/waypost/e2e/outside"
)

// npmAssistant is the official client of npm. It holds results against the tools' schemas
// itself.
type npmAssistant struct {
	signed  func() []string
	send    *json.Encoder
	answers *bufio.Scanner
}

// npmAnswer is what the program prints of a request: one of the three.
type npmAnswer struct {
	List      *mcp.ListToolsResult
	Result    *mcp.CallToolResult
	Error     string
	RequestID string
}

// TestTheClientOfNPMCallsEveryTool is TestAToolAnswersAsItsOperation with that client.
func TestTheClientOfNPMCallsEveryTool(t *testing.T) {
	t.Parallel()
	dir := outside.Installed(t, filepath.Join("..", "..", "tools", "npm", "mcp"), "assistant.mjs")
	w := newWorld(t)
	w.callTools(t, func(signed func() []string) assistant {
		cmd := exec.CommandContext(context.WithoutCancel(t.Context()), "node", "assistant.mjs", w.url+"/mcp")
		cmd.Dir = dir
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		var complaints strings.Builder
		cmd.Stderr = &complaints
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = in.Close() // which ends it
			if err := cmd.Wait(); err != nil || complaints.Len() > 0 {
				t.Errorf("%v %.2000s", err, complaints.String())
			}
		})
		a := &npmAssistant{signed: signed, send: json.NewEncoder(in), answers: bufio.NewScanner(out)}
		a.answers.Buffer(nil, 16<<20)
		return a
	})
}

func (a *npmAssistant) ask(t *testing.T, request map[string]any) npmAnswer {
	t.Helper()
	request["authorization"] = a.signed()[1]
	if err := a.send.Encode(request); err != nil {
		t.Fatal(err)
	}
	var answer npmAnswer
	if !a.answers.Scan() {
		t.Fatalf("the client ended: %v", a.answers.Err())
	}
	if err := json.Unmarshal(a.answers.Bytes(), &answer); err != nil {
		t.Fatal(err)
	}
	if answer.Error != "" {
		t.Fatalf("%v: %s", request, answer.Error)
	}
	return answer
}

func (a *npmAssistant) list(t *testing.T) *mcp.ListToolsResult {
	t.Helper()
	return a.ask(t, map[string]any{}).List
}

func (a *npmAssistant) call(t *testing.T, tool string, arguments map[string]any) (*mcp.CallToolResult, string) {
	t.Helper()
	answer := a.ask(t, map[string]any{"name": tool, "arguments": arguments})
	return answer.Result, answer.RequestID
}
