package pages

import (
	"strconv"
	"strings"
	"time"

	"github.com/waypost/waypost/internal/account"
)

// revokeQuestion is asked before an API token is revoked.
func revokeQuestion() *Question {
	return &Question{Title: "Revoke this API token?", Button: "Revoke the token", Detail: "Whatever uses it is refused from now on. This can't be undone."}
}

// revokeButton leads to the question about a token of the account at a path.
func revokeButton(at string, k account.APIToken) Button {
	return Button{Label: "Revoke", Action: at + "/revoke-token?" + query("token", strconv.FormatInt(k.ID, 10)), Asks: true, Danger: true}
}

// tokenTable lists API tokens with what can be done with each.
func tokenTable(list []account.APIToken, now time.Time, buttons func(account.APIToken) []Button) Table {
	t := Table{
		Caption: "API tokens, newest first", Empty: Empty{Title: "No API tokens"},
		Columns: []Column{{Label: "Token"}, {Label: "State"}, {Label: "May"}, {Label: "Limits", Wide: true}, {Label: "Used"}, {Label: "Expires"}, {Label: "Created"}},
	}
	for _, k := range list {
		state := Badge{"works", "good"}
		switch {
		case k.ExpiresAt != nil && !now.Before(*k.ExpiresAt):
			state = Badge{"expired", "quiet"}
		case k.ReplacedAt != nil:
			state = Badge{"replaced", "wait"}
		}
		scopes := make([]string, len(k.Scopes))
		for i, s := range k.Scopes {
			scopes[i] = string(s)
		}
		var limits []string
		if len(k.Networks) > 0 {
			limits = append(limits, "from "+short(strings.Join(k.Networks, ", "), 80))
		}
		if k.Rate > 0 {
			limits = append(limits, grouped(int64(k.Rate))+" requests a minute")
		}
		var used, expires any = nil, "never"
		if k.LastUsedAt != nil {
			used = []any{*k.LastUsedAt, k.LastAddress}
		}
		if k.ExpiresAt != nil {
			expires = *k.ExpiresAt
		}
		t.Rows = append(t.Rows, Row{
			Cells:   []any{Named{k.Name, k.Prefix + "..."}, state, strings.Join(scopes, ", "), strings.Join(limits, "; "), used, expires, k.CreatedAt},
			Buttons: buttons(k),
		})
	}
	return t
}
