package session

import (
	"context"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db/dbsqlc"
)

// idBlock is how many numbers are drawn from the sequence at a time.
const idBlock = 4096

// ids are numbers for new sessions, drawn in blocks. They say nothing but
// which session is which: what a crash loses is never missed.
type ids struct {
	mu   sync.Mutex
	free []int64
}

// take returns n numbers, drawn in tx where too few are left.
func (s *ids) take(ctx context.Context, queries *dbsqlc.Queries, tx pgx.Tx, n int) ([]int64, error) {
	if taken := s.pop(n); taken != nil {
		return taken, nil
	}
	drawn, err := queries.NextSessionIDs(ctx, tx, int32(n+idBlock))
	if err != nil {
		return nil, err
	}
	s.giveBack(drawn[n:])
	return drawn[:n:n], nil
}

func (s *ids) pop(n int) []int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	rest := len(s.free) - n
	if rest < 0 {
		return nil
	}
	taken := make([]int64, n)
	copy(taken, s.free[rest:])
	s.free = s.free[:rest]
	return taken
}

// giveBack returns numbers that no session got.
func (s *ids) giveBack(unused []int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free = append(s.free, unused...)
}
