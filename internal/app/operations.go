package app

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/waypost/waypost/api"
	"github.com/waypost/waypost/internal/config"
	"github.com/waypost/waypost/internal/webhook"
)

// resources are all operations of the API, in the order of the description. They
// are called with s; an empty one is enough to describe them.
func resources(c config.Config, s *Services, providers []webhook.Registration, condition api.Condition, x Extensions) ([]api.Resource, error) {
	webhooks, err := api.Webhooks(s.Receiver, s.Webhooks, providers)
	if err != nil {
		return nil, err
	}
	list := []api.Resource{
		api.SignIn(s.Accounts, s.Tokens, baseURL(c)),
		api.APITokens(s.Accounts),
		api.Users(s.Accounts),
		api.ServiceAccounts(s.Accounts),
		api.Posts(s.Content),
		api.Blogs(s.Content),
		api.Uploads(s.Uploads, baseURL(c)),
		webhooks,
		api.Statistics(s.Stats, s.Sites, api.Collection{
			Sites: s.Sites, Collector: s.Ingester, Batches: s.Ingester,
			SiteRate: c.SiteRate, AddressRate: c.AddressRate, HonorDoNotTrack: c.HonorDoNotTrack,
		}),
		api.Sites(s.Sites, s.Eraser, s.Stats),
		api.Mails(s.Mails),
		api.Audit(s.Audit, s.Accounts),
		api.AI(s.AI),
		api.Jobs(s.Jobs),
		api.Service(baseURL(c), c.Docs.Prefix, pathOfTools(c), condition),
	}
	if x.Resources != nil {
		list = append(list, x.Resources(s)...)
	}
	return list, nil
}

// searchState says whether searches find every text.
func (a *App) searchState(ctx context.Context) string {
	switch n, err := a.services.Content.Unsearchable(ctx, a.options.Areas.Readiness); {
	case err != nil:
		return "unknown"
	case n > 0:
		return fmt.Sprintf("indexing: at least %d texts are not found yet", n)
	}
	return "ok"
}

// baseURL is the service's own, without a trailing slash.
func baseURL(c config.Config) string {
	if c.URL == "" {
		return "http://" + c.Addr
	}
	return strings.TrimRight(c.URL, "/")
}

// condition says how the service is.
func (a *App) condition() api.Condition {
	ready := a.options.Areas.Readiness
	return api.Condition{
		Ready: []api.Check{
			{Name: "serving", Test: func(context.Context) error {
				if a.stopping.Load() {
					return errors.New("the process is stopping")
				}
				return nil
			}},
			{Name: "database", Test: ready.Ping},
			{Name: "migrations", Test: ready.CheckMigrated},
			{Name: "jobs", Test: a.jobs.Check},
			{Name: "geoip", State: a.services.Countries.Describe()},
			{Name: "audit", Tell: a.auditState},
			{Name: "mail", Tell: func(ctx context.Context) string { return a.services.Mails.State(ctx, ready) }},
			{Name: "search", Tell: a.searchState},
			{Name: "storage", Tell: a.storage.tell},
		},
		JobFailures: func() map[string]api.JobFailure {
			list := make(map[string]api.JobFailure)
			for name, f := range a.jobs.Failures() {
				list[name] = api.JobFailure{Count: f.Count, Since: f.Since.UTC(), Last: f.Last.UTC()}
			}
			return list
		},
	}
}
