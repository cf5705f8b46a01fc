package security

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/audit"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
)

// Limits of reports. Anybody can send them, so each is a bound on what a stranger can
// make this service do, and one stranger on others.
const (
	// reportsPerNetwork is how many requests of one IPv4 address or IPv6 /48 are read in a
	// minute, reportsPerMinute of all together, by one process.
	reportsPerNetwork = 60
	reportsPerMinute  = 1200
	// maxWaitingKeys bounds the violations that a process tells apart between two writes.
	maxWaitingKeys = 200
	// maxRows bounds the rows, maxOrigins those of one directive on one page: what is made
	// up fills no place of another page, and the rest is counted as "others".
	maxRows    = 1000
	maxOrigins = 10
)

// ErrTooManyReports says that no report is read before the next minute.
var ErrTooManyReports = fault.New(fault.RateLimited, fault.CodeRateLimited, "Too many reports. Nothing is lost: one of a kind is enough.")

// violation is what reports are counted by.
type violation struct{ directive, blocked, page string }

// reports are what one process was told since the last write.
type reports struct {
	mu      sync.Mutex
	minute  time.Time
	read    int
	from    map[netip.Prefix]int
	waiting map[violation]int64
}

func newReports() *reports { return &reports{waiting: map[violation]int64{}} }

// AdmitReport counts a request that reports something, before its body is read. It
// returns ErrTooManyReports.
func (s *Service) AdmitReport(from netip.Addr) error {
	now := s.o.Now()
	r := s.reports
	r.mu.Lock()
	defer r.mu.Unlock()
	if minute := now.Truncate(time.Minute); !minute.Equal(r.minute) {
		r.minute, r.read, r.from = minute, 0, map[netip.Prefix]int{}
	}
	network := networkOf(from)
	if r.from[network] >= reportsPerNetwork || r.read >= reportsPerMinute {
		return ErrTooManyReports.After(r.minute.Add(time.Minute).Sub(now))
	}
	r.from[network]++ // as many as were read at most
	r.read++
	return nil
}

func networkOf(a netip.Addr) netip.Prefix {
	bits := 48
	if a = a.Unmap().WithZone(""); a.Is4() {
		bits = 32
	}
	p, _ := a.Prefix(bits) // the zero Prefix for no address
	return p
}

// CountViolation counts one report. page is the route of the page that it is about; ""
// where there is none, which is not counted.
func (s *Service) CountViolation(v Violation, page string) {
	if page == "" || len(page) > 200 {
		return
	}
	key := violation{v.Directive, v.Blocked, page}
	r := s.reports
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.waiting[key]; !known && len(r.waiting) >= maxWaitingKeys {
		key.blocked = others
		if _, known := r.waiting[key]; !known && len(r.waiting) >= 2*maxWaitingKeys {
			return
		}
	}
	r.waiting[key]++
}

// flushReports adds to the stored counts. Where nobody knows whether a write was
// committed, it is done again: a report may count twice.
func (s *Service) flushReports(ctx context.Context) error {
	s.reports.mu.Lock()
	waiting := s.reports.waiting
	s.reports.waiting = map[violation]int64{}
	s.reports.mu.Unlock()
	if len(waiting) == 0 {
		return nil
	}
	err := s.o.DB.InTx(ctx, identity.System("security"), func(ctx context.Context, tx pgx.Tx) error {
		rows, err := s.queries.ListCSPReportKeys(ctx, tx)
		if err != nil {
			return err
		}
		p := dbsqlc.AddCSPReportsParams{Now: s.o.Now()}
		for key, n := range within(rows, waiting) {
			p.Directives, p.Blocked, p.Pages, p.Counts = append(p.Directives, key.directive), append(p.Blocked, key.blocked), append(p.Pages, key.page), append(p.Counts, n)
		}
		return s.queries.AddCSPReports(ctx, tx, p)
	})
	if err == nil {
		return nil
	}
	s.reports.mu.Lock()
	defer s.reports.mu.Unlock()
	for key, n := range waiting {
		if _, known := s.reports.waiting[key]; known || len(s.reports.waiting) < maxWaitingKeys {
			s.reports.waiting[key] += n
		}
	}
	return fmt.Errorf("security: store reports: %w", err)
}

// within gives each of the waiting a row that there is, or a new one within the bounds,
// or that of the others.
func within(rows []dbsqlc.ListCSPReportKeysRow, waiting map[violation]int64) map[violation]int64 {
	there := make(map[violation]bool, len(rows))
	origins := map[violation]int{}
	for _, row := range rows {
		there[violation{row.Directive, row.Blocked, row.Page}] = true
		origins[violation{directive: row.Directive, page: row.Page}]++
	}
	out := map[violation]int64{}
	for key, n := range waiting {
		of := violation{directive: key.directive, page: key.page}
		if !there[key] && (origins[of] >= maxOrigins || len(there) >= maxRows) {
			key.blocked = others
		}
		if !there[key] && len(there) >= maxRows {
			key = violation{"default-src", others, others}
		}
		if !there[key] {
			there[key] = true
			origins[of]++
		}
		out[key] += n
	}
	return out
}

func (s *Service) sweepReports(ctx context.Context) (int, error) {
	var n int64
	err := s.o.DB.InTx(ctx, identity.Step(ctx, "security"), func(ctx context.Context, tx pgx.Tx) error {
		var err error
		n, err = s.queries.DeleteCSPReports(ctx, tx, s.o.Now().Add(-Kept))
		return err
	})
	return int(n), err
}

// ClearReports forgets all reports, and notes who did.
func (s *Service) ClearReports(ctx context.Context) error {
	err := s.o.DB.InTx(ctx, identity.FromContext(ctx), func(ctx context.Context, tx pgx.Tx) error {
		n, err := s.queries.ClearCSPReports(ctx, tx)
		if err != nil {
			return err
		}
		return audit.Note(ctx, tx, "csp_reports", "", map[string]any{"event": "cleared", "rows": n})
	})
	s.current.forget()
	return err
}

// Report is how often browsers refused one thing on one page.
type Report struct {
	Violation
	Page                string
	Count               int64
	FirstSeen, LastSeen time.Time
}

// maxListed is how many rows of each list are read.
const maxListed = 50

func (s *Service) listReports(ctx context.Context) ([]Report, error) {
	rows, err := s.queries.ListCSPReports(ctx, s.o.DB.Direct(), maxListed)
	if err != nil {
		return nil, fmt.Errorf("security: read reports: %w", db.Translate(err))
	}
	list := make([]Report, len(rows))
	for i, row := range rows {
		list[i] = Report{Violation{Directive: row.Directive, Blocked: row.Blocked}, row.Page, row.Count, row.FirstSeen, row.LastSeen}
	}
	return list, nil
}
