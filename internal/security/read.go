package security

import (
	"context"
	"fmt"
	"time"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
)

const (
	// fresh is how long a State is given again, censusFresh a Census, whose counting takes
	// longer the more accounts there are.
	fresh       = 4 * time.Second
	censusFresh = time.Minute
	// ofLate is how long ago what is called recent began.
	ofLate = 24 * time.Hour
)

// State is what changes from minute to minute.
type State struct {
	Hours, Days SignIns
	// Limited are the subjects that are at a limit now, LimitedTotal all of them.
	Limited      []Limited
	LimitedTotal int64
	Refused      []RefusedSignIn
	Webhooks     []RefusedWebhooks
	// WebhookHours are refused deliveries in the hours of Hours.
	WebhookHours []int64
	Reports      []Report
}

// Limited is who is at a limit, and until when. Subject is an address, an account's
// number or, for a sign-in, the digest of an e-mail address.
type Limited struct {
	Limit, Subject string
	Count          int64
	Until          time.Time
}

// RefusedSignIn is an account whose sign-ins from one address were refused of late.
type RefusedSignIn struct {
	UserID                 int64
	Email, Address, Reason string
	Count                  int64
	Latest                 time.Time
}

// RefusedWebhooks are a provider's deliveries that were refused for one reason. Provider
// is "" for all that nobody knows.
type RefusedWebhooks struct {
	Provider, Reason string
	OfLate, Kept     int64
	Latest           time.Time
}

// Current reads the State, which may be a few seconds old.
func (s *Service) Current(ctx context.Context) (State, error) {
	now := s.o.Now()
	return s.current.get(s.o.Now, fresh, func() (State, error) { return s.readState(ctx, now) })
}

func (s *Service) readState(ctx context.Context, now time.Time) (State, error) {
	var st State
	var err error
	if st.Hours, st.Days, err = s.signInsOf(ctx, now); err != nil {
		return st, err
	}
	if st.Limited, st.LimitedTotal, err = s.listLimited(ctx, now); err != nil {
		return st, err
	}
	refused, err := s.queries.ListRefusedSignIns(ctx, s.o.DB.Direct(), maxListed, now.Add(-ofLate))
	if err != nil {
		return st, fmt.Errorf("security: read refused sign-ins: %w", db.Translate(err))
	}
	for _, row := range refused {
		st.Refused = append(st.Refused, RefusedSignIn{row.UserID, row.Email, row.Ip, row.Reason, row.Count, row.Latest})
	}
	if err := s.readWebhooks(ctx, now, &st); err != nil {
		return st, err
	}
	st.Reports, err = s.listReports(ctx)
	return st, err
}

func (s *Service) listLimited(ctx context.Context, now time.Time) ([]Limited, int64, error) {
	p := dbsqlc.ListLimitedParams{Now: &now, MaxRows: maxListed}
	for _, l := range s.o.Limits {
		most := int32(0)
		if l.Window > 0 {
			most = int32(l.Max)
		}
		p.Names, p.Most = append(p.Names, l.Name), append(p.Most, most)
	}
	rows, err := s.queries.ListLimited(ctx, s.o.DB.Direct(), p)
	if err != nil {
		return nil, 0, fmt.Errorf("security: read limits: %w", db.Translate(err))
	}
	var total int64
	list := make([]Limited, len(rows))
	for i, row := range rows {
		list[i], total = Limited{row.Name, row.Subject, int64(row.Count), row.Until}, row.Total
	}
	return list, total, nil
}

func (s *Service) readWebhooks(ctx context.Context, now time.Time, st *State) error {
	rows, err := s.queries.CountRefusedWebhooks(ctx, s.o.DB.Direct(), now.Add(-ofLate), maxListed)
	if err != nil {
		return fmt.Errorf("security: read refused webhooks: %w", db.Translate(err))
	}
	for _, row := range rows {
		st.Webhooks = append(st.Webhooks, RefusedWebhooks{row.Provider, row.Reason, row.OfLate, row.Kept, row.Latest})
	}
	hours, err := s.queries.CountRefusedWebhooksByHour(ctx, s.o.DB.Direct(), st.Hours.Since)
	if err != nil {
		return fmt.Errorf("security: read refused webhooks: %w", db.Translate(err))
	}
	st.WebhookHours = make([]int64, 24)
	for _, row := range hours {
		if i := int(row.Hour.Sub(st.Hours.Since) / time.Hour); i >= 0 && i < len(st.WebhookHours) {
			st.WebhookHours[i] = row.Count
		}
	}
	return nil
}

// Census counts what lets somebody in. Of very many, the first 100,000 of each kind.
type Census struct {
	// Ages are counts by age, as Bounds divides it, youngest first; a row for each kind.
	Ages map[Kind][]int64
	// Roles are people's active accounts.
	Roles []RoleCount
	// Unprotected are ADMINs without a second factor, the first few.
	Unprotected []Person
}

// Kind is a kind of credential.
type Kind string

// The kinds.
const (
	Sessions     Kind = "session"
	PageSessions Kind = "page_session"
	APITokens    Kind = "api_token"
	SiteKeys     Kind = "site_key"
)

const day = 24 * time.Hour

// Bounds divide the ages of credentials.
var Bounds = []time.Duration{day, 7 * day, 30 * day, 90 * day, 365 * day}

// RoleCount is how many accounts have a role, and how many of these a second factor.
type RoleCount struct {
	Role                string
	Accounts, Protected int64
}

// Person is an account.
type Person struct {
	ID    int64
	Email string
}

// Count reads the Census, which may be a minute old.
func (s *Service) Count(ctx context.Context) (Census, error) {
	now := s.o.Now()
	return s.census.get(s.o.Now, censusFresh, func() (Census, error) { return s.readCensus(ctx, now) })
}

func (s *Service) readCensus(ctx context.Context, now time.Time) (Census, error) {
	c := Census{Ages: map[Kind][]int64{}}
	for _, k := range []Kind{Sessions, PageSessions, APITokens, SiteKeys} {
		c.Ages[k] = make([]int64, len(Bounds)+1)
	}
	bounds := make([]time.Time, len(Bounds)) // which rise
	for i, b := range Bounds {
		bounds[len(Bounds)-1-i] = now.Add(-b)
	}
	ages, err := s.queries.CountCredentialAges(ctx, s.o.DB.Direct(), bounds, now)
	if err != nil {
		return c, fmt.Errorf("security: count credentials: %w", db.Translate(err))
	}
	for _, row := range ages {
		c.Ages[Kind(row.Kind)][len(Bounds)-int(row.Age)] = row.Count
	}
	roles, err := s.queries.CountSecondFactors(ctx, s.o.DB.Direct())
	if err != nil {
		return c, fmt.Errorf("security: count second factors: %w", db.Translate(err))
	}
	for _, row := range roles {
		c.Roles = append(c.Roles, RoleCount{row.Role, row.Accounts, row.Protected})
	}
	admins, err := s.queries.ListUnprotectedAdmins(ctx, s.o.DB.Direct(), maxListed)
	if err != nil {
		return c, fmt.Errorf("security: list administrators: %w", db.Translate(err))
	}
	for _, row := range admins {
		c.Unprotected = append(c.Unprotected, Person{row.ID, row.Email})
	}
	return c, nil
}
