package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"
)

const (
	startRounds = 5
	startMost   = 800 * time.Millisecond
	memoryMost  = 96 << 20
	binaryMost  = 70 << 20
	// idleFor is how long a service does nothing before its memory is read.
	idleFor = 5 * time.Second
)

// startFigure starts the service on a database that exists and leaves it alone.
func startFigure(ctx context.Context, w *world) error {
	var took []time.Duration
	var memory int64
	for range startRounds {
		stops := len(w.stops)
		started := time.Now()
		if err := w.serve(ctx); err != nil {
			return err
		}
		took = append(took, time.Since(started))
		time.Sleep(idleFor)
		memory = max(memory, residentMemory(w.service))
		for i := len(w.stops) - 1; i >= stops; i-- {
			w.stops[i]()
		}
		w.stops = w.stops[:stops]
	}
	binary, err := os.Stat(w.binary())
	if err != nil {
		return err
	}
	middle := slices.Sorted(slices.Values(took))[len(took)/2]
	fmt.Printf("   start to ready: %v (<= %v) %s\n", middle.Round(time.Millisecond), startMost, verdict(middle <= startMost))
	fmt.Printf("   memory when idle: %d MiB (<= %d) %s\n", memory>>20, int64(memoryMost)>>20, verdict(memory <= memoryMost))
	fmt.Printf("   binary: %d MiB (<= %d) %s\n", binary.Size()>>20, int64(binaryMost)>>20, verdict(binary.Size() <= binaryMost))
	return nil
}
