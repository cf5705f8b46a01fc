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
	"refresh-session":              "The next tokens. The refresh token that was sent no longer works.",
	"logout":                       "Signed out: the session has ended.",
	"verify-email":                 "The e-mail address is verified.",
	"resend-verification-mail":     "If such an account exists, a mail is on its way.",
	"register-user":                "The account was created; a mail with a verification link is on its way.",
	"request-password-reset":       "If such an account exists, a mail is on its way.",
	"reset-password":               "The password was set, and all sessions have ended.",
	"change-password":              "The password was changed.",
	"change-email":                 "A mail with a confirmation link is on its way to the new address.",
	"confirm-email-change":         "The account has the new address.",
	"undo-email-change":            "The account has its old address again.",
	"setup-two-factor":             "The secret for an authenticator app. Nothing is turned on yet.",
	"enable-two-factor":            "Two-factor authentication is on.",
	"verify-two-factor":            "Signed in.",
	"disable-two-factor":           "Two-factor authentication is off.",
	"renew-recovery-codes":         "The new recovery codes. The old ones are no longer valid.",
	"exchange-oauth-code":          "Signed in, or the first of two steps is done.",
	"link-identity":                "The identity is linked to your account.",
	"get-me":                       "Your account.",
	"get-jwks":                     "The public keys that verify access tokens (RFC 7517).",
	"get-service-index":            "The entry points.",
	"presign-upload":               "A signed URL that takes the file.",
	"complete-upload":              "The file is stored.",
	"replay-webhook-event":         "The event after the replay.",
	"collect-events":               "Accepted events are stored; the others are listed with the reason.",
	"send-test-mail":               "The mail is in the queue.",
	"resend-mail":                  "The mail is in the queue again.",
	"erase-audit-entries":          "The row's data was erased from the log; the chain stays valid.",
	"retry-job":                    "The job will run again.",
	"run-periodic-task":            "The task runs now.",
	"end-all-sessions":             "All sessions of the account have ended.",
	"cancel-webhook-replay":        "The bulk replay takes no more deliveries.",
	"rotate-api-token":             "The new token, shown this once.",
	"rotate-service-account-token": "The new token, shown this once.",
	"rotate-site-key":              "The new key, shown this once.",
	"cancel-job":                   "The job was cancelled, or is being cancelled.",
	"get-health":                   "The process is alive.",
	"get-readiness":                "The service is ready.",
	"get-upload":                   "The file's metadata.",
	"put-upload":                   "The file's new metadata.",
	"update-upload":                "The file's new metadata.",
	"delete-upload":                "The file was deleted.",
	"create-upload":                "The file was stored.",
	"list-uploads":                 "One page of the files.",
	"list-ai-usage":                "One page of your usage.",
	"list-all-ai-usage":            "One page of everybody's usage.",
	"get-ai-models":                "The models that you may use.",
	"get-audit-verification":       "The result of the verification.",
	"get-audit-proof":              "The inclusion proof.",
	"get-audit-consistency":        "The consistency proof.",
	"get-audit-key":                "The public key.",
	"list-site-drops":              "One page of the counts.",
	"list-webhook-rejections":      "One page of the refused deliveries.",
	"list-webhook-replays":         "One page of the bulk replays.",
	"get-webhook-replay":           "The bulk replay's progress.",
	"create-webhook-replay":        "The bulk replay has started.",
}

// verbs say it for all others; %s stands for what the operation is about.
var verbs = map[string]string{
	"get": "The %s.", "list": "The %s.", "create": "The %s was created.", "update": "The updated %s.", "put": "The updated %s.",
	"delete": "The %s was deleted.", "revoke": "The %s was revoked.", "end": "The %s has ended.", "unlink": "The %s was unlinked.",
	"pause": "The %s is paused.", "resume": "The %s was resumed.", "cancel": "The %s was cancelled.",
}

// statistics are what operations on them answer, by the last word of their operationIds.
var statistics = map[string]string{
	"site": "The site.", "summary": "The totals.", "timeseries": "The buckets.", "realtime": "The number of visitors.", "pages": "The pages.",
	"referrers": "The referrers and campaigns.", "geo": "The countries.", "tech": "The devices, browsers and operating systems.", "events": "The events.",
	"report": "The answers, by question.",
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
		return statistics[words[i+1]]
	}
	if slices.ContainsFunc(op.Parameters, func(p *huma.Param) bool { return p.Name == "cursor" }) {
		form = "One page of the %s."
	}
	return strings.Replace(form, "%s", strings.Join(words, " "), 1)
}
