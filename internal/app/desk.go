package app

import (
	"context"
	"strings"
	"time"

	"github.com/waypost/waypost/internal/pages"
)

// desk are the operator pages.
func (a *App) desk() pages.Group {
	s := a.services
	return pages.Desk(pages.DeskOptions{
		Visits: s.Accounts, Secure: strings.HasPrefix(baseURL(a.options.Config), "https:"),
		Sections: []pages.Section{
			pages.OverviewPage(overview{a}),
			pages.WebhookPages(s.Receiver),
			pages.StatisticsPages(s.Stats, s.Sites, baseURL(a.options.Config), time.Now),
			pages.UserPages(s.Accounts, time.Now),
			pages.JobPages(s.Jobs),
			pages.MailPages(s.Mails),
			pages.AuditPages(s.Audit),
			pages.ObservabilityPages(a.history, s.Jobs, time.Now),
			pages.DatabasePages(s.Database),
		},
	})
}

// overview tells how the parts are.
type overview struct{ a *App }

// Parts asks each part as the readiness check does.
func (o overview) Parts(ctx context.Context) []pages.Part {
	var list []pages.Part
	for _, c := range o.a.condition().Ready {
		p := pages.Part{Name: c.Name, State: c.State}
		switch {
		case c.Test != nil:
			p.State = "ok"
			if err := c.Test(ctx); err != nil {
				p.State, p.Bad = "failing", true
			}
		case c.Tell != nil:
			p.State = c.Tell(ctx)
		}
		list = append(list, p)
	}
	return list
}
