package app

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/waypost/waypost/internal/config"
	"github.com/waypost/waypost/internal/webhook"
)

// maxAnswer bounds what is read of an answer, in bytes.
const maxAnswer = 1 << 20

// SendOptions say what SendWebhook delivers.
type SendOptions struct {
	// URL is the service's; empty means WAYPOST_URL, else dev's.
	URL            string
	Provider, Type string
	// ID is the event's id; empty for a made-up one.
	ID string
	// Body is a JSON body; empty for a made-up one.
	Body []byte
	// LookupEnv finds an environment variable, "" when it is not set.
	LookupEnv func(name string) string
	// Now is the delivery's time.
	Now        time.Time
	Extensions Extensions
}

// Answer is what the receiver said.
type Answer struct {
	Code   int
	Status string // such as "200 OK"
	Body   string
}

// SendWebhook signs a delivery as its provider would and posts it.
func SendWebhook(ctx context.Context, c config.Config, o SendOptions) (Answer, error) {
	registry, err := newRegistry(c, o.LookupEnv, o.Extensions)
	if err != nil {
		return Answer{}, err
	}
	provider, err := registry.Provider(o.Provider)
	if err != nil {
		var names []string
		for _, p := range registry.Providers() {
			names = append(names, p.Name)
		}
		return Answer{}, fmt.Errorf("%w (%q; there are %s. One of your own is in the file that --config or WAYPOST_CONFIG names)", err, o.Provider, strings.Join(names, ", "))
	}
	env, err := readDevEnv(c.DataDir)
	if err != nil {
		return Answer{}, err
	}
	secret := cmp.Or(o.LookupEnv(provider.SecretEnv), env.get(provider.SecretEnv))
	if secret == "" {
		return Answer{}, fmt.Errorf("no secret: set %s, or point --data-dir at a running dev", provider.SecretEnv)
	}
	base := cmp.Or(o.URL, c.URL, env.get(envURL))
	if base == "" {
		return Answer{}, errors.New("no address: give --url, set WAYPOST_URL, or point --data-dir at a running dev")
	}
	body, header, err := registry.Compose(o.Provider, webhook.TestDelivery{
		EventType: o.Type, ExternalID: cmp.Or(o.ID, "test_"+rand.Text()), Data: o.Body, Secret: secret, Now: o.Now,
	})
	if err != nil {
		return Answer{}, err
	}
	return post(ctx, strings.TrimRight(base, "/")+"/webhooks/"+o.Provider, body, header)
}

func post(ctx context.Context, url string, body []byte, header http.Header) (Answer, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return Answer{}, err
	}
	req.Header = header
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return Answer{}, fmt.Errorf("is the service running? %w", err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return Answer{}, err
	}
	return Answer{Code: res.StatusCode, Status: res.Status, Body: strings.TrimSpace(string(text))}, nil
}
