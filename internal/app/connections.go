package app

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/waypost/waypost/db"
)

// connections measures how the database's connections are used, area by area.
type connections struct {
	areas                        db.Areas
	most, taken, waiting, denied *prometheus.Desc
}

func newConnections(areas db.Areas) *connections {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("waypost_database_"+name, help, []string{"area"}, nil)
	}
	return &connections{
		areas:   areas,
		most:    desc("connections_max", "Connections that an area may have."),
		taken:   desc("connections_taken", "Connections of an area that are in use at this moment."),
		waiting: desc("connections_waiting", "Callers who wait for one of an area's connections, or for their turn to ask for one, at this moment."),
		denied:  desc("connections_refused_total", "Callers who were answered 503 busy because none of an area's connections became free in time, or their turn did not come."),
	}
}

// Describe implements prometheus.Collector.
func (c *connections) Describe(to chan<- *prometheus.Desc) {
	to <- c.most
	to <- c.taken
	to <- c.waiting
	to <- c.denied
}

// Collect implements prometheus.Collector.
func (c *connections) Collect(to chan<- prometheus.Metric) {
	for area, d := range c.areas.All() {
		u := d.Usage()
		to <- prometheus.MustNewConstMetric(c.most, prometheus.GaugeValue, float64(u.Max), area)
		to <- prometheus.MustNewConstMetric(c.taken, prometheus.GaugeValue, float64(u.Taken), area)
		to <- prometheus.MustNewConstMetric(c.waiting, prometheus.GaugeValue, float64(u.Waiting), area)
		to <- prometheus.MustNewConstMetric(c.denied, prometheus.CounterValue, float64(u.Refused), area)
	}
}
