package app

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// usualPercent is Go's own: the heap is collected when it has doubled.
	usualPercent = 100
	// busyGrowth is how far the heap of a busy process grows between two collections,
	// in bytes.
	busyGrowth = 128 << 20
	// busyTurns is how often within a second a busy process allocates as much as is alive.
	busyTurns = 2
	// calmSeconds is how long a process must not be busy before its heap is kept small again.
	calmSeconds = 30
)

// garbagePacer chooses how far the heap grows between two collections. What is alive is
// little, so that under load Go would collect it many times a second, which takes a tenth
// of the processor time; but an idle process shall stay small.
type garbagePacer struct {
	allocated uint64 // bytes, so far
	percent   int    // as debug.SetGCPercent takes it
	calm      int    // seconds
}

// next takes what a second has brought, the bytes allocated so far and those that were
// alive after the latest collection, and reports whether percent has changed.
func (p *garbagePacer) next(allocated, live uint64) bool {
	within, before := allocated-p.allocated, p.percent
	p.allocated = allocated
	live = max(live, 4<<20) // below that Go doesn't collect
	switch {
	case within >= busyTurns*live:
		p.calm = 0
		wanted := max(usualPercent, int(100*busyGrowth/live))
		// A change stops the process for a moment, so a small one isn't worth it.
		if wanted < before*4/5 || wanted > before*5/4 {
			p.percent = wanted
		}
	case before != usualPercent:
		if p.calm++; p.calm >= calmSeconds {
			p.calm, p.percent = 0, usualPercent
		}
	}
	return p.percent != before
}

// paceGarbage lets a garbagePacer choose until ctx ends, unless the operator has chosen
// by GOGC. GOMEMLIMIT holds in any case.
func paceGarbage(ctx context.Context) {
	if os.Getenv("GOGC") != "" {
		return
	}
	defer debug.SetGCPercent(usualPercent)
	samples := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}, {Name: "/gc/heap/live:bytes"}}
	metrics.Read(samples)
	p := garbagePacer{allocated: samples[0].Value.Uint64(), percent: usualPercent}
	every := time.NewTicker(time.Second)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		}
		metrics.Read(samples)
		if !p.next(samples[0].Value.Uint64(), samples[1].Value.Uint64()) {
			continue
		}
		debug.SetGCPercent(p.percent)
		if p.percent == usualPercent {
			debug.FreeOSMemory()
		}
	}
}
