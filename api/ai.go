package api

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/waypost/waypost/internal/aigateway"
	"github.com/waypost/waypost/internal/apidoc/export"
	"github.com/waypost/waypost/internal/apidoc/model"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
)

// AIService is the gateway to language models.
type AIService interface {
	AICalls
	AILedger
}

// AILedger tells what was used, and sets budgets. Usage returns up to f.Limit rows and
// sets total when it is not nil; Budget and SetBudget return aigateway.ErrNoUser.
type AILedger interface {
	Usage(ctx context.Context, f aigateway.UsageFilter, total *int64) ([]aigateway.DayUsage, error)
	Budget(ctx context.Context, userID int64) (aigateway.Standing, error)
	SetBudget(ctx context.Context, userID int64, budget *aigateway.Money) (aigateway.Standing, error)
}

// AI are the operations of the gateway to language models.
func AI(s AIService) Resource {
	return Resource{
		Tag: "AI gateway", Area: "AI",
		Description: "Language models behind one OpenAI-compatible API. Clients need only the base URL `/api/ai/v1` of this service and an API token with scope `ai` as key. " +
			"The highest possible cost of a call is reserved first; the actual cost is booked at its end. Prompts and answers are neither stored nor logged.",
		Register: func(a huma.API) {
			registerAICalls(a, s)
			registerAIModels(a, s)
			registerAIUsage(a, s)
			registerAIBudgets(a, s)
		},
	}
}

// AIDays bounds a list of usage. It is exported because Huma passes over embedded fields
// that are not.
type AIDays struct {
	From string `query:"from" format:"date" doc:"The first day, in UTC." example:"2026-01-01"`
	To   string `query:"to" format:"date" doc:"The last day, in UTC." example:"2026-12-31"`
}

type listAIUsageInput struct {
	Page
	AIDays
}

type listAllAIUsageInput struct {
	Page
	AIDays
	UserID uint64 `query:"user_id" minimum:"1" maximum:"9223372036854775807" doc:"Only of this account." example:"7"`
}

type aiUsageCursor struct {
	Day   string `json:"d"`
	Model string `json:"m"`
	User  int64  `json:"u"`
}

// list reads a page of usage for an account, 0 for all.
func (d AIDays) list(ctx context.Context, s AILedger, user int64, p Page) ([]aigateway.DayUsage, *int64, error) {
	f := aigateway.UsageFilter{UserID: user, Limit: p.Limit + 1}
	problems := map[string]string{}
	for name, day := range map[string]struct {
		text string
		to   *time.Time
	}{"query.from": {d.From, &f.First}, "query.to": {d.To, &f.Last}} {
		if day.text == "" {
			continue
		}
		t, err := time.Parse(time.DateOnly, day.text)
		if err != nil || t.Year() < 1 {
			problems[name] = "Must be a day such as 2026-01-02."
		}
		*day.to = t
	}
	if len(problems) > 0 {
		return nil, nil, fault.Validation(problems)
	}
	var c aiUsageCursor
	if err := decodeCursor(p.Cursor, &c); err != nil {
		return nil, nil, err
	}
	if p.Cursor != "" {
		day, err := time.Parse(time.DateOnly, c.Day)
		if err != nil {
			return nil, nil, decodeCursor("no cursor", &c)
		}
		f.After = &aigateway.DayUsage{Day: day, Model: c.Model, UserID: c.User}
	}
	var total *int64
	if p.Total {
		total = new(int64)
	}
	rows, err := s.Usage(ctx, f, total)
	return rows, total, err
}

func aiPosition(u aigateway.DayUsage) any {
	return aiUsageCursor{u.Day.Format(time.DateOnly), u.Model, u.UserID}
}

func registerAIUsage(a huma.API, s AILedger) {
	huma.Register(a, access(huma.Operation{
		OperationID: "list-ai-usage",
		Method:      http.MethodGet,
		Path:        "/api/ai/usage",
		Summary:     "List your use of language models",
		Description: "Usage of your account and its API tokens, by day and model, newest first.",
	}, signedIn().ofOneself()), func(ctx context.Context, in *listAIUsageInput) (*struct{ Body list[AIUsage] }, error) {
		rows, total, err := in.list(ctx, s, identity.FromContext(ctx).UserID, in.Page)
		if err != nil {
			return nil, err
		}
		return &struct{ Body list[AIUsage] }{newList(rows, in.Limit, total, toAIUsage, aiPosition)}, nil
	})
	huma.Register(a, access(huma.Operation{
		OperationID: "list-all-ai-usage",
		Method:      http.MethodGet,
		Path:        "/api/admin/ai/usage",
		Summary:     "List everybody's use of language models",
		Description: "Usage by day, model and account, newest first.",
	}, roles(identity.Admin)), func(ctx context.Context, in *listAllAIUsageInput) (*struct{ Body list[AccountAIUsage] }, error) {
		rows, total, err := in.list(ctx, s, int64(in.UserID), in.Page) // at most as large as that
		if err != nil {
			return nil, err
		}
		return &struct{ Body list[AccountAIUsage] }{newList(rows, in.Limit, total, toAccountAIUsage, aiPosition)}, nil
	})
}

// AIUserInput names an account.
type AIUserInput struct {
	UserID uint64 `path:"user_id" minimum:"1" maximum:"9223372036854775807" doc:"The account's id." example:"7"`
}

type putAIBudgetInput struct {
	AIUserInput
	Body model.Request[AIBudgetChange]
}

func registerAIBudgets(a huma.API, s AILedger) {
	huma.Register(a, access(huma.Operation{
		OperationID: "get-ai-budget",
		Method:      http.MethodGet,
		Path:        "/api/ai/budget",
		Summary:     "Show your budget for language models",
		Description: "What your account may spend, has spent, and has reserved for running calls. Each API token may spend as much, within the account's budget.",
	}, signedIn().ofOneself()), func(ctx context.Context, _ *struct{}) (*struct{ Body single[AIBudget] }, error) {
		st, err := s.Budget(ctx, identity.FromContext(ctx).UserID)
		if err != nil {
			return nil, err
		}
		return &struct{ Body single[AIBudget] }{single[AIBudget]{Data: toAIBudget(st), Message: "Budget found."}}, nil
	})
	huma.Register(a, exported(access(huma.Operation{
		OperationID: "put-ai-budget",
		Method:      http.MethodPut,
		Path:        "/api/admin/ai/budgets/{user_id}",
		Summary:     "Set an account's budget for language models",
		Description: "Applies from the next call. Null removes the account's own budget, so that the configured one applies again.",
	}, roles(identity.Admin), aigateway.ErrNoUser), export.Variant{Parameters: map[string]string{"user_id": "{{userId}}"}}), func(ctx context.Context, in *putAIBudgetInput) (*struct{ Body single[AIBudget] }, error) {
		var budget *aigateway.Money
		if wanted := in.Body.Value().Budget; wanted != nil {
			m, err := aigateway.MoneyOf(*wanted)
			if err != nil {
				return nil, fault.Validation(map[string]string{"body.budget": "Must be an amount of 0 to 1000000 with at most 6 decimals."})
			}
			budget = &m
		}
		st, err := s.SetBudget(ctx, int64(in.UserID), budget)
		if err != nil {
			return nil, err
		}
		return &struct{ Body single[AIBudget] }{single[AIBudget]{Data: toAIBudget(st), Message: "Budget set."}}, nil
	})
}
