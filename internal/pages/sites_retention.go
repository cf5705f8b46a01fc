package pages

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/stats"
)

// retentionText is what the form of a site has for its retention.
func retentionText(months *int) string {
	if months == nil {
		return ""
	}
	return strconv.Itoa(*months)
}

// retentionIn reads it; nil is for what the instance does.
func retentionIn(r *http.Request) (*int, error) {
	text := strings.TrimSpace(r.PostForm.Get("retention"))
	if text == "" {
		return nil, nil
	}
	months, err := strconv.Atoi(text)
	if err != nil || months < 0 || months > stats.MaxRetentionMonths {
		return nil, fault.Validation(map[string]string{"retention": "From 1 to 1200 months, 0 for ever, or empty for what the instance does."})
	}
	return &months, nil
}

// keptFacts says for how long single visits stay, and from when on they are there.
func keptFacts(kept stats.RawData) []Fact {
	text := "for ever"
	switch {
	case kept.Months == 1:
		text = "for 1 month before the current one"
	case kept.Months > 1:
		text = fmt.Sprintf("for %d months before the current one", kept.Months)
	}
	if !kept.FromSite {
		text += ", as the instance does"
	}
	facts := []Fact{{"Single visits stay", text}}
	if !kept.FirstDay.IsZero() {
		facts = append(facts, Fact{"They are there from", kept.FirstDay.Format(time.DateOnly) + " on"})
	}
	return facts
}
