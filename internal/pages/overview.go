package pages

import (
	"context"
	"net/http"
	"strings"
)

// Overview is what the first page asks.
type Overview interface {
	// Parts tells how each part of the service is.
	Parts(ctx context.Context) []Part
}

// Part is a part of the service and how it is.
type Part struct {
	Name string
	// State is "ok", or what is to be said.
	State string
	// Bad says that the service is not ready because of it.
	Bad bool
}

// OverviewPage is the first page of the desk.
func OverviewPage(o Overview) Section {
	return Section{Label: "Overview", Screens: []Screen{{Path: "", Title: "Overview", View: "overview", Live: true, Read: func(r *http.Request) (any, error) {
		view := overviewPage{Well: true}
		for _, p := range o.Parts(r.Context()) {
			tone := "good"
			switch {
			case p.Bad || strings.HasPrefix(p.State, "broken") || strings.HasPrefix(p.State, "failing"):
				tone, view.Well = "bad", false
			case p.State != "ok":
				tone = "quiet"
			}
			view.Parts = append(view.Parts, Fact{p.Name, Badge{p.State, tone}})
		}
		return view, nil
	}}}}
}

type overviewPage struct {
	Well  bool
	Parts []Fact
}
