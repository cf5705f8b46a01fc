package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// clockTick is the unit of /proc's times: 1/100 s on every Linux in use (USER_HZ).
const clockTick = 10 * time.Millisecond

// processorTime is what this process, the service and all of PostgreSQL's have
// used so far. On a machine that others use too, time per delivery says more than
// deliveries per second. It is 0 where there is no /proc.
func processorTime() time.Duration {
	parents, used := map[int]int{}, map[int]time.Duration{}
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0
	}
	for _, path := range stats {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it ended
		}
		// proc(5): the second field is the name in parentheses, which may hold spaces.
		fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
		if len(fields) < 13 {
			continue
		}
		number := func(i int) int { n, _ := strconv.Atoi(string(fields[i])); return n } // the kernel's own
		parents[pid] = number(1)
		used[pid] = time.Duration(number(11)+number(12)) * clockTick
	}
	var sum time.Duration
	for pid := range used {
		for p := pid; p > 1; p = parents[p] {
			if p == os.Getpid() {
				sum += used[pid]
				break
			}
		}
	}
	return sum
}
