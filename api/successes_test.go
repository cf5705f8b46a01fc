package api

import (
	"encoding/json"
	"net/http"
	"os"
	"strconv"
	"testing"
)

// No answer is described by its status's name, and the table has neither operations that
// there are not nor texts that nobody reads.
func TestEverySuccessSaysWhatHappened(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Paths map[string]map[string]struct {
			OperationID string
			Responses   map[string]struct{ Description string }
		}
	}
	if err := json.Unmarshal(b, &doc); err != nil {
		t.Fatal(err)
	}
	shown := map[string]bool{}
	for _, item := range doc.Paths {
		for _, op := range item {
			for status, r := range op.Responses {
				n, err := strconv.Atoi(status)
				if err != nil || n >= http.StatusBadRequest {
					continue
				}
				if r.Description == "" || r.Description == http.StatusText(n) {
					t.Errorf("%s: %s says only %q: put into successes what happened", op.OperationID, status, r.Description)
				}
				if r.Description == successes[op.OperationID] {
					shown[op.OperationID] = true
				}
			}
		}
	}
	for id := range successes {
		if !shown[id] {
			t.Errorf("successes has %s, which is no operation or describes its answers itself", id)
		}
	}
}
