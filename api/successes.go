package api

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// successes say what happened where an operation succeeds, by operationId: of all but
// those that describe their answers themselves.
var successes = map[string]string{
	// Sign-in
	"login":                    "Signed in, or the first of two steps is done.",
	"refresh-session":          "The next tokens. The refresh token that was sent no longer works.",
	"logout":                   "Signed out: the session has ended.",
	"get-me":                   "Your account.",
	"verify-email":             "The e-mail address is verified.",
	"resend-verification-mail": "If such an account exists, a mail is on its way.",
	"register-user":            "The account was created; a mail with a verification link is on its way.",
	"request-password-reset":   "If such an account exists, a mail is on its way.",
	"reset-password":           "The password was set, and all sessions have ended.",
	"change-password":          "The password was changed.",
	"change-email":             "A mail with a confirmation link is on its way to the new address.",
	"confirm-email-change":     "The account has the new address.",
	"undo-email-change":        "The account has its old address again.",
	"list-sessions":            "One page of the account's sessions.",
	"end-all-sessions":         "All sessions of the account have ended.",
	"end-session":              "The session has ended.",
	"setup-two-factor":         "The secret for an authenticator app. Nothing is turned on yet.",
	"enable-two-factor":        "Two-factor authentication is on.",
	"verify-two-factor":        "Signed in.",
	"disable-two-factor":       "Two-factor authentication is off.",
	"renew-recovery-codes":     "The new recovery codes. The old ones are no longer valid.",
	"list-oauth-providers":     "The sign-in providers, on one page.",
	"start-oauth-login":        "A redirect to the provider's page.",
	"exchange-oauth-code":      "Signed in, or the first of two steps is done.",
	"list-identities":          "The linked identities, on one page.",
	"link-identity":            "The identity is linked to your account.",
	"unlink-identity":          "The identity was unlinked.",
	"get-jwks":                 "The public keys that verify access tokens (RFC 7517).",

	// API tokens
	"list-api-tokens":  "One page of the API tokens.",
	"create-api-token": "The new token, shown this once.",
	"revoke-api-token": "The token was revoked.",
	"rotate-api-token": "The new token, shown this once.",

	// Users
	"list-users":  "One page of the accounts.",
	"create-user": "The account was created.",
	"get-user":    "The account.",
	"put-user":    "The account after the update.",
	"update-user": "The account after the update.",
	"delete-user": "The account was deleted.",

	// Service accounts
	"list-service-accounts":        "One page of the service accounts.",
	"create-service-account":       "The service account was created.",
	"get-service-account":          "The service account.",
	"put-service-account":          "The service account after the update.",
	"update-service-account":       "The service account after the update.",
	"delete-service-account":       "The service account was deleted.",
	"list-service-account-tokens":  "One page of the service account's tokens.",
	"create-service-account-token": "The new token, shown this once.",
	"revoke-service-account-token": "The token was revoked.",
	"rotate-service-account-token": "The new token, shown this once.",

	// Posts
	"list-posts":  "One page of the posts.",
	"create-post": "The post was created.",
	"get-post":    "The post.",
	"put-post":    "The post after the update.",
	"update-post": "The post after the update.",
	"delete-post": "The post was deleted.",

	// Blogs
	"list-blogs":  "One page of the blogs.",
	"create-blog": "The blog was created.",
	"get-blog":    "The blog.",
	"put-blog":    "The blog after the update.",
	"update-blog": "The blog after the update.",
	"delete-blog": "The blog was deleted.",

	// Uploads
	"list-uploads":       "One page of the files.",
	"create-upload":      "The file was stored.",
	"get-upload":         "The file's metadata.",
	"delete-upload":      "The file was deleted.",
	"put-upload":         "The file's metadata after the update.",
	"update-upload":      "The file's metadata after the update.",
	"create-upload-link": "A link to the file.",
	"presign-upload":     "A signed URL that takes the file.",
	"complete-upload":    "The file is stored.",

	// Webhooks
	"list-webhook-events":     "One page of the webhook events.",
	"replay-webhook-event":    "The event after the replay.",
	"list-webhook-rejections": "One page of the refused deliveries.",
	"list-webhook-providers":  "One page of the webhook providers.",
	"get-webhook-event":       "The webhook event, with its headers and attempts.",
	"create-webhook-replay":   "The bulk replay has started.",
	"list-webhook-replays":    "One page of the bulk replays.",
	"get-webhook-replay":      "The bulk replay's progress.",
	"cancel-webhook-replay":   "The bulk replay takes no more deliveries.",
	"list-webhook-targets":    "One page of the targets.",
	"pause-webhook-target":    "The target is paused.",
	"resume-webhook-target":   "The target gets events again.",

	// Statistics
	"get-stats-site":            "What is known of the site.",
	"get-site-stats-site":       "What is known of the site.",
	"get-stats-summary":         "The totals of the range.",
	"get-site-stats-summary":    "The totals of the range.",
	"get-stats-timeseries":      "The buckets of the range.",
	"get-site-stats-timeseries": "The buckets of the range.",
	"get-stats-realtime":        "The number of visitors now.",
	"get-site-stats-realtime":   "The number of visitors now.",
	"get-stats-pages":           "The pages, and those on which sessions began and ended.",
	"get-site-stats-pages":      "The pages, and those on which sessions began and ended.",
	"get-stats-referrers":       "The sources and campaigns.",
	"get-site-stats-referrers":  "The sources and campaigns.",
	"get-stats-geo":             "The countries.",
	"get-site-stats-geo":        "The countries.",
	"get-stats-tech":            "The devices, browsers and operating systems.",
	"get-site-stats-tech":       "The devices, browsers and operating systems.",
	"get-stats-events":          "The custom events.",
	"get-site-stats-events":     "The custom events.",
	"get-stats-report":          "The answers, by question.",
	"get-site-stats-report":     "The answers, by question.",
	"collect-events":            "Accepted events are stored; the others are listed with the reason.",

	// Sites
	"list-sites":      "One page of the sites.",
	"create-site":     "The site was created.",
	"get-site":        "The site.",
	"update-site":     "The site after the update.",
	"put-site":        "The site after the update.",
	"delete-site":     "The site was deleted.",
	"list-site-keys":  "One page of the site's keys.",
	"create-site-key": "The new key, shown this once.",
	"rotate-site-key": "The new key, shown this once.",
	"revoke-site-key": "The key was revoked.",
	"list-site-drops": "One page of the counts.",

	// Mails
	"list-mails":     "One page of the mails.",
	"get-mail":       "The mail with its text.",
	"send-test-mail": "The mail is in the queue.",
	"resend-mail":    "The mail is in the queue again.",

	// Audit log
	"list-audit-entries":     "One page of the log.",
	"get-audit-entry":        "The entry.",
	"get-audit-verification": "The result of the verification.",
	"list-audit-checkpoints": "One page of the checkpoints.",
	"get-audit-key":          "The public key.",
	"get-audit-proof":        "The inclusion proof.",
	"get-audit-consistency":  "The consistency proof.",
	"erase-audit-entries":    "The row's data was erased from the log; the chain stays valid.",

	// AI gateway
	"get-ai-models":     "The models that you may use.",
	"list-ai-usage":     "One page of your usage.",
	"list-all-ai-usage": "One page of everybody's usage.",
	"get-ai-budget":     "The account's budget and what is left of it.",
	"put-ai-budget":     "The account's new budget.",

	// Jobs
	"list-jobs":           "One page of the jobs.",
	"get-job":             "The job.",
	"delete-job":          "The job was deleted.",
	"retry-job":           "The job will run again.",
	"cancel-job":          "The job was cancelled, or is being cancelled.",
	"list-queues":         "The queues, on one page.",
	"pause-queue":         "The queue is paused.",
	"resume-queue":        "The queue runs again.",
	"list-periodic-tasks": "The periodic tasks, on one page.",
	"run-periodic-task":   "The task runs now.",

	// Service
	"get-health":        "The process is alive.",
	"get-readiness":     "The service is ready.",
	"get-service-index": "The entry points.",
}

// describeSuccess says of each success what happened, also in the examples of its message,
// where only the status's name was said.
func describeSuccess(_ *huma.OpenAPI, op *huma.Operation) {
	text := successes[op.OperationID]
	if text == "" {
		return
	}
	for status, r := range op.Responses {
		n, err := strconv.Atoi(status)
		if err != nil || n >= http.StatusBadRequest || r.Description != http.StatusText(n) {
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
