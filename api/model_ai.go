package api

import (
	"time"

	"github.com/waypost/waypost/internal/aigateway"
)

// AIModels is a list in OpenAI's shape.
type AIModels struct {
	Object string    `json:"object" enum:"list" example:"list" doc:"Always list."`
	Data   []AIModel `json:"data" nullable:"false" doc:"The models that you may use."`
}

// AIModel is a model that the caller may use.
type AIModel struct {
	ID      string `json:"id" example:"fast" doc:"The model's name here."`
	Object  string `json:"object" enum:"model" example:"model" doc:"Always model."`
	Created int64  `json:"created" example:"0" doc:"Always 0: it is not known."`
	OwnedBy string `json:"owned_by" example:"waypost" doc:"Always waypost."`
}

// AIUsage is what an account used of a model on a day.
type AIUsage struct {
	Day          string  `json:"day" format:"date" example:"2026-01-02" doc:"In UTC; a call counts for the day on which it ended."`
	Model        string  `json:"model" example:"fast" doc:"The model's name here."`
	Requests     int64   `json:"requests" minimum:"0" example:"12" doc:"Calls that reached an upstream."`
	InputTokens  int64   `json:"input_tokens" minimum:"0" example:"5120" doc:"Tokens of what was sent to the model."`
	OutputTokens int64   `json:"output_tokens" minimum:"0" example:"960" doc:"Tokens of what the model answered."`
	Cost         float64 `json:"cost" minimum:"0" example:"0.001344" doc:"In the currency of the configured prices."`
}

// AccountAIUsage is what some account used of a model on a day.
type AccountAIUsage struct {
	UserID uint64 `json:"user_id" minimum:"1" example:"7" doc:"The account, also where it was deleted since."`
	AIUsage
}

func toAIUsage(u aigateway.DayUsage) AIUsage {
	return AIUsage{Day: u.Day.Format(time.DateOnly), Model: u.Model, Requests: u.Requests, InputTokens: u.Tokens.Input, OutputTokens: u.Tokens.Output, Cost: u.Cost.Float()}
}

func toAccountAIUsage(u aigateway.DayUsage) AccountAIUsage {
	return AccountAIUsage{UserID: uint64(u.UserID), AIUsage: toAIUsage(u)} // ids are positive
}

// AIBudget is how an account stands against its budget.
type AIBudget struct {
	Limit     float64          `json:"limit" minimum:"0" example:"5" doc:"What may be spent in a period, in the currency of the configured prices."`
	Spent     float64          `json:"spent" minimum:"0" example:"1.2034" doc:"What was spent in this period."`
	Reserved  float64          `json:"reserved" minimum:"0" example:"0.0025" doc:"The most that calls still running could cost."`
	Remaining float64          `json:"remaining" minimum:"0" example:"3.7941" doc:"What is left; never below 0."`
	Period    aigateway.Period `json:"period" enum:"day,week,month" example:"month" doc:"In UTC; a week begins on Monday."`
	ResetsAt  time.Time        `json:"resets_at" example:"2026-02-01T00:00:00Z" doc:"When the next period begins."`
}

func toAIBudget(s aigateway.Standing) AIBudget {
	return AIBudget{
		Limit: s.Limit.Float(), Spent: s.Spent.Float(), Reserved: s.Reserved.Float(), Remaining: s.Remaining().Float(), Period: s.Period, ResetsAt: s.ResetsAt.UTC(),
	}
}

// AIBudgetChange is the body that sets a budget.
type AIBudgetChange struct {
	Budget *float64 `json:"budget" model:"required,min=0,max=1000000" doc:"What the account may spend in a period, with at most 6 decimals; null for the configured budget." example:"5"`
}
