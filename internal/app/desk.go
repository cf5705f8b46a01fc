package app

import (
	"strings"
	"time"

	"github.com/waypost/waypost/internal/pages"
)

// desk are the operator pages.
func (a *App) desk() pages.Group {
	s := a.services
	var providers []pages.Provider
	for _, p := range s.Accounts.Providers() {
		providers = append(providers, pages.Provider{Name: p.Name, Title: p.Title})
	}
	return pages.Desk(pages.DeskOptions{
		Visits: s.Accounts, Secure: strings.HasPrefix(baseURL(a.options.Config), "https:"),
		Providers: providers, Ready: a.options.Areas.Readiness.Ping,
		Sections: []pages.Section{
			pages.OverviewPage(a.overview()),
			pages.WebhookPages(s.Webhooks),
			pages.StatisticsPages(s.Stats, s.Sites, s.Eraser, s.Retention, baseURL(a.options.Config), time.Now),
			pages.UserPages(s.Accounts, s.Accounts, time.Now),
			pages.JobPages(s.Jobs),
			pages.MailPages(s.Mails),
			pages.AIPages(s.AI, time.Now),
			pages.UploadPages(s.Uploads),
			pages.AuditPages(s.Audit),
			pages.SecurityPages(s.Security),
			pages.ObservabilityPages(a.history, s.Jobs, time.Now),
			pages.DatabasePages(s.Database),
			pages.OwnPages(s.Accounts),
		},
	})
}
