package webhook

import (
	"context"
	"log/slog"
	"net/http"
	"time"
)

// Asked is what a signed delivery wants back, "" when it is an event.
func Asked(c Challenge, body []byte) string { return c.asked(body) }

// Answered is what is sent back to a challenge by GET, where the token is in TOKEN.
func Answered(c Challenge, token, query string) (string, error) {
	r := Receiver{&core{o: Options{Logger: slog.New(slog.DiscardHandler), LookupSecret: func(name string) string { return map[string]string{"TOKEN": token}[name] }}}}
	return r.answer(context.Background(), Registration{Name: "asks", Challenge: c}, Question{Provider: "asks", Query: query})
}

// RetryAfter is how long a target's answer with that header asks to wait.
func RetryAfter(value string, now time.Time) (time.Duration, bool) {
	return retryAfter(http.Header{"Retry-After": {value}}, now)
}
