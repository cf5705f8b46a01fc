package main

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/waypost/waypost/internal/account"
	"github.com/waypost/waypost/internal/identity"
)

const (
	listsLimit   = 20 * time.Millisecond
	listsWarmups = 5
)

// Behind the deliveries of deliveriesSQL: errors of which some are rare, the targets of
// acme's events, and which bodies came before.
var listsSQL = []string{
	`alter table webhook_events disable trigger user`,
	`update webhook_events set handler_error = case when created_at < now() - interval '80 days' then 'No route to host' when get_byte(raw_sha256, 0) % 2 = 0 then 'the handler ran longer than its time budget of 10s'
		else 'the target answered 500: request ' || id end where status = 'failed' and get_byte(raw_sha256, 1) % 3 > 0`,
	`insert into webhook_forwards (event_id, target, provider, status, error, attempts, due_at, created_at, settled_at)
		select id, case when event_type = 'order.lost' then 'crm' else 'default' end, provider, status, handler_error, 1, case when status = 'pending' then now() + interval '30 days' end, created_at, processed_at
		from webhook_events where provider = 'acme'`,
	`insert into webhook_repeats (id, provider, event_type, created_at)
		select e.id, e.provider, e.event_type, e.created_at from webhook_events e
		where e.id <> (select b.id from webhook_events b where (b.raw_sha256, b.provider) >= (e.raw_sha256, e.provider) order by b.raw_sha256, b.provider, b.id limit 1)`,
	`update webhook_repeats_mark set (checked_at, checked_id) = (select created_at, id from webhook_events order by created_at desc, id desc limit 1)`,
	`alter table webhook_events enable always trigger audit_insert`, `alter table webhook_events enable always trigger audit_update`,
	`alter table webhook_events enable always trigger audit_delete`, `alter table webhook_events enable always trigger audit_truncate`,
	`vacuum (analyze) webhook_events, webhook_forwards, webhook_repeats`,
}

// listsFilters are each filter by itself, common and rare and with nothing behind it, and
// pairs of them.
var listsFilters = []string{
	"", "provider=payment", "provider=quiet", "provider=never",
	"status=processed", "status=failed", "status=pending", "status=pending&provider=quiet", "status=failed&provider=codehost", "status=processed&provider=acme",
	"event_type=payment.succeeded", "event_type=order.lost", "event_type=none", "event_type=push&provider=payment", "event_type=thing.made&status=failed", "event_type=order.lost&status=pending",
	"external_id=evt_7", "external_id=evt_7&status=failed", "external_id=none",
	"error=The+handler+ran", "error=no+route", "error=the+target+answered+500", "error=none", "error=no+route&provider=acme", "error=the+target&status=failed&event_type=order.paid",
	"repeated=true", "repeated=true&provider=payment", "repeated=true&event_type=issues", "repeated=true&status=failed", "repeated=true&status=pending",
	"handled=false", "handled=false&provider=payment", "handled=false&event_type=thing.made", "handled=false&repeated=true", "handled=false&provider=quiet",
	"target=default", "target=crm", "target=none", "target=crm&provider=acme&status=failed", "target=default&status=pending", "target=default&error=no+route",
}

// listsFigure asks for the first page of the list of deliveries by every filter,
// at all times and within a week.
func listsFigure(ctx context.Context, w *world) error {
	if err := w.fillLists(ctx); err != nil {
		return err
	}
	if err := w.serveDesk(ctx); err != nil {
		return err
	}
	token, err := w.signIn(ctx, pagesEmail, pagesPassword)
	if err != nil {
		return err
	}
	from := time.Now().Add(-60 * 24 * time.Hour).UTC()
	week := "from=" + url.QueryEscape(from.Format(time.RFC3339)) + "&to=" + url.QueryEscape(from.Add(7*24*time.Hour).Format(time.RFC3339))
	slow := 0
	fmt.Printf("   %-55s %10s %10s   p50 <= %v\n", "GET /api/admin/webhooks", "p50", "p99", listsLimit)
	for _, filter := range listsFilters {
		for _, also := range []string{"", week} {
			took, err := w.timeList(ctx, filter+"&"+also, token)
			if err != nil {
				return err
			}
			name := filter
			if also != "" {
				name += " (a week)"
			}
			if median(took) > listsLimit {
				slow++
			}
			slices.Sort(took)
			fmt.Printf("   %-55s %10v %10v   %s\n", name, round(median(took)), round(took[len(took)*99/100]), verdict(median(took) <= listsLimit))
		}
	}
	for _, path := range []string{"/api/admin/webhooks/providers", "/api/admin/webhooks/rejected"} {
		took, err := w.timePath(ctx, path, token)
		if err != nil {
			return err
		}
		fmt.Printf("   %-55s %10v\n", path, round(median(took)))
	}
	fmt.Printf("   filters above the limit: %d (0) %s\n", slow, verdict(slow == 0))
	return nil
}

// fillLists writes the deliveries, unless a kept database has them.
func (w *world) fillLists(ctx context.Context) error {
	var there int
	if err := w.owner.QueryRow(ctx, `select count(*) from webhook_forwards`).Scan(&there); err != nil || there > 0 {
		return err
	}
	accounts, err := account.New(account.Options{DB: w.db})
	if err != nil {
		return err
	}
	if _, err := accounts.Create(ctx, account.NewUser{FirstName: "Ada", LastName: "Lovelace", Email: pagesEmail, Password: pagesPassword, Role: identity.Admin}); err != nil {
		return err
	}
	if err := w.fillWith(ctx, deskRows{"deliveries", w.deliveries, deliveriesSQL}); err != nil {
		return err
	}
	for _, sql := range listsSQL {
		if _, err := w.owner.Exec(ctx, sql); err != nil {
			return fmt.Errorf("%.60s: %w", sql, err)
		}
	}
	return nil
}

func (w *world) timeList(ctx context.Context, query, token string) ([]time.Duration, error) {
	return w.timePath(ctx, "/api/admin/webhooks?"+query, token)
}

func (w *world) timePath(ctx context.Context, path, token string) ([]time.Duration, error) {
	var took []time.Duration
	for n := range min(w.requests, 50) + listsWarmups {
		each, err := w.askAs(ctx, path, token)
		if err != nil {
			return nil, err
		}
		if n >= listsWarmups {
			took = append(took, each)
		}
	}
	return took, nil
}
