package stats

import (
	"fmt"

	"github.com/waypost/waypost/internal/stats/drop"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/waypost/waypost/internal/fault"
)

// collected counts what became of hits. The drops of each site are in the database.
type collected struct {
	outcomes [4]prometheus.Counter // by the constants below
}

// What becomes of a hit.
const (
	hitCounted = iota
	hitDropped // a bot, another host, do not track
	hitInvalid
	hitUnstored // the sender was told to try again
)

func newCollected(to prometheus.Registerer, waiting func() int) (*collected, error) {
	hits := prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "waypost", Subsystem: "collect", Name: "hits_total",
		Help: "Hits of pages by outcome: counted, dropped on purpose, invalid, or unstored because the database or its queue had no place.",
	}, []string{"outcome"})
	c := new(collected)
	for i, outcome := range []string{hitCounted: "counted", hitDropped: "dropped", hitInvalid: "invalid", hitUnstored: "unstored"} {
		c.outcomes[i] = hits.WithLabelValues(outcome)
	}
	if to == nil {
		return c, nil
	}
	queued := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: "waypost", Subsystem: "collect", Name: "storing", Help: "Hits that wait for a transaction to be stored in.",
	}, func() float64 { return float64(waiting()) })
	for _, m := range []prometheus.Collector{hits, queued} {
		if err := to.Register(m); err != nil {
			return nil, fmt.Errorf("stats: metrics: %w", err)
		}
	}
	return c, nil
}

func (c *collected) count(dropped drop.Reason, err error) {
	outcome := hitCounted
	switch {
	case fault.KindOf(err) == fault.Invalid:
		outcome = hitInvalid
	case err != nil:
		outcome = hitUnstored
	case dropped != drop.None:
		outcome = hitDropped
	}
	c.outcomes[outcome].Inc()
}
