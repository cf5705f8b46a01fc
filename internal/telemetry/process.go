package telemetry

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/waypost/waypost/db"
)

// Process is how a process was at the end of a minute.
type Process struct {
	Started    time.Time `json:"started"`
	Revision   string    `json:"revision,omitempty"` // of the program's source, shortened; "" where nobody noted it
	Go         string    `json:"go"`
	Processors int       `json:"processors"`
	Goroutines int       `json:"goroutines"`
	Heap       int64     `json:"heap"`   // bytes of live and dead objects
	Memory     int64     `json:"memory"` // bytes that Go has from the system
	// Busy is the processor time of the last minute in seconds per second: 1.5 is one
	// processor and a half.
	Busy  float64 `json:"busy"`
	Pools []Pool  `json:"pools"` // by the names of their areas
	// Counts are what each Tally counted in that minute; what counted nothing is left out.
	Counts map[string]uint64 `json:"counts,omitempty"`
}

// Pool is how an area's connections to the database were used in a minute.
type Pool struct {
	Area string `json:"area"`
	Max  int    `json:"max"`
	// Taken and Waiting are the most at any of the moments that were looked at.
	Taken   int `json:"taken"`
	Waiting int `json:"waiting"`
	// Refused are the callers who waited in vain.
	Refused int64 `json:"refused"`
}

// gauge watches a process and its pools between two cuts.
type gauge struct {
	areas    db.Areas
	now      func() time.Time
	started  time.Time
	revision string

	mu      sync.Mutex
	pools   map[string]Pool // the most since the last cut
	refused map[string]int64
	cpu     time.Duration
	since   time.Time
}

func newGauge(areas db.Areas, now func() time.Time) *gauge {
	g := &gauge{areas: areas, now: now, started: now(), pools: map[string]Pool{}, refused: map[string]int64{}}
	g.since, g.cpu, g.revision = g.started, cpuTime(), revision()
	return g
}

func revision() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value[:min(12, len(s.Value))]
		}
	}
	return ""
}

// instanceName is the host and the process's number there, by which an operator finds it.
func instanceName() string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "unknown"
	}
	return host + "/" + strconv.Itoa(os.Getpid())
}

// look takes note of how the pools are used at this moment.
func (g *gauge) look() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for area, d := range g.areas.All() {
		u, p := d.Usage(), g.pools[area]
		p.Area, p.Max = area, u.Max
		p.Taken, p.Waiting = max(p.Taken, u.Taken), max(p.Waiting, u.Waiting)
		p.Refused = u.Refused - g.refused[area]
		g.pools[area] = p
	}
}

// cut returns how the process is, and what its pools were since the last cut.
func (g *gauge) cut() Process {
	g.look()
	g.mu.Lock()
	defer g.mu.Unlock()
	p := Process{
		Started: g.started, Revision: g.revision, Go: runtime.Version(), Processors: runtime.GOMAXPROCS(0), Goroutines: runtime.NumGoroutine(),
	}
	samples := []metrics.Sample{
		{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"},
	}
	metrics.Read(samples)
	p.Heap = int64(samples[0].Value.Uint64())
	p.Memory = int64(samples[1].Value.Uint64() - samples[2].Value.Uint64())
	now, cpu := g.now(), cpuTime()
	if d := now.Sub(g.since); d > 0 {
		p.Busy = float64(cpu-g.cpu) / float64(d)
	}
	g.since, g.cpu = now, cpu
	for area, pool := range g.pools {
		p.Pools = append(p.Pools, pool)
		g.refused[area] += pool.Refused
		delete(g.pools, area)
	}
	slices.SortFunc(p.Pools, func(a, b Pool) int { return strings.Compare(a.Area, b.Area) })
	return p
}

// cpuTime is the processor time that this process has used.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
