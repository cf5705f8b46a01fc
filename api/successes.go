package api

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// successes say what happened where an operation succeeds, by operationId: those of which
// the verb doesn't say it.
var successes = map[string]string{
	"login":                        "Signed in, or the first of two steps is done.",
	"refresh-session":              "The next tokens. The refresh token that was sent is used up.",
	"logout":                       "Signed out: the session has ended.",
	"verify-email":                 "The e-mail address is verified.",
	"resend-verification-mail":     "If the account waits for it, a mail is on its way.",
	"register-user":                "The account was created; a mail asks to verify its address.",
	"request-password-reset":       "If there is such an account, a mail is on its way.",
	"reset-password":               "The password was set, and all sessions have ended.",
	"change-password":              "The password was changed.",
	"change-email":                 "A mail to the new address asks to confirm it.",
	"confirm-email-change":         "The account has the new address.",
	"undo-email-change":            "The account has its former address again.",
	"setup-two-factor":             "The secret for an authenticator app. Nothing is turned on yet.",
	"enable-two-factor":            "Two-factor authentication is on.",
	"verify-two-factor":            "Signed in.",
	"disable-two-factor":           "Two-factor authentication is off.",
	"renew-recovery-codes":         "The new recovery codes. The former ones are no longer valid.",
	"exchange-oauth-code":          "Signed in, or the first of two steps is done.",
	"link-identity":                "The identity is linked to your account.",
	"get-me":                       "The account that asks.",
	"get-jwks":                     "The public keys that verify access tokens (RFC 7517).",
	"get-service-index":            "The entry points.",
	"presign-upload":               "A signed address that takes the file.",
	"complete-upload":              "The file is stored.",
	"replay-webhook-event":         "The event after its replay.",
	"collect-events":               "The events that count are stored; the others are listed with the reason.",
	"send-test-mail":               "The mail is in the queue.",
	"resend-mail":                  "The mail is in the queue again.",
	"erase-audit-entries":          "What the log held of the row is gone; its chain still holds.",
	"retry-job":                    "The job will run again.",
	"run-periodic-task":            "The task will run at once.",
	"end-all-sessions":             "All sessions of the account have ended.",
	"cancel-webhook-replay":        "No more events are taken.",
	"rotate-api-token":             "The new token, shown this once.",
	"rotate-service-account-token": "The new token, shown this once.",
	"rotate-site-key":              "The new key, shown this once.",
}

// verbs say it for all others; %s stands for what the operation is about.
var verbs = map[string]string{
	"get": "The %s.", "list": "The %s.", "create": "The %s was created.", "update": "The %s as it is now.", "put": "The %s as it is now.",
	"delete": "The %s is gone.", "revoke": "The %s is no longer valid.", "end": "The %s has ended.", "unlink": "The %s is no longer linked.",
	"pause": "The %s is paused.", "resume": "The %s runs again.", "cancel": "The %s is cancelled.",
}

// abbreviations are words of operationIds as they are written.
var abbreviations = map[string]string{"ai": "AI", "api": "API", "oauth": "OAuth"}

// describeSuccess says of each success what happened, also in the examples of its message,
// where only the status's name was said.
func describeSuccess(_ *huma.OpenAPI, op *huma.Operation) {
	text := successText(op)
	if text == "" {
		return
	}
	for status, r := range op.Responses {
		n, err := strconv.Atoi(status)
		if err != nil || n >= http.StatusMultipleChoices || r.Description != http.StatusText(n) {
			continue
		}
		r.Description = text
		if m := r.Content["application/json"]; m != nil && m.Schema != nil && strings.HasPrefix(m.Schema.Ref, "#/components/schemas/Single") {
			if m.Extensions == nil {
				m.Extensions = map[string]any{}
			}
			m.Extensions["x-example-members"] = map[string]any{"message": text}
		}
	}
}

// successText is "" where nobody says it.
func successText(op *huma.Operation) string {
	if text := successes[op.OperationID]; text != "" {
		return text
	}
	verb, about, _ := strings.Cut(op.OperationID, "-")
	form := verbs[verb]
	if form == "" {
		return ""
	}
	words := strings.Split(about, "-")
	for i, word := range words {
		if written := abbreviations[word]; written != "" {
			words[i] = written
		}
	}
	if i := slices.Index(words, "stats"); i >= 0 {
		return "The statistics: " + strings.Join(words[i+1:], " ") + "."
	}
	if slices.ContainsFunc(op.Parameters, func(p *huma.Param) bool { return p.Name == "cursor" }) {
		form = "One page of the %s."
	}
	return strings.Replace(form, "%s", strings.Join(words, " "), 1)
}
