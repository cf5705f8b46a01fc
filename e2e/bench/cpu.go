package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// clockTick is the unit of /proc's times: 1/100 s on every Linux in use (USER_HZ).
const clockTick = 10 * time.Millisecond

// processorUse is processor time: of this process, which makes the load, of the servers
// that it started, of PostgreSQL's processes, and what the machine had left.
type processorUse struct{ load, servers, postgres, idle time.Duration }

// sum is what was used for the work.
func (u processorUse) sum() time.Duration { return u.load + u.servers + u.postgres }

// parts says what each had of the processors' time.
func (u processorUse) parts() string {
	all := u.sum() + u.idle
	of := func(d time.Duration) float64 { return 100 * d.Seconds() / all.Seconds() }
	return fmt.Sprintf("servers %.0f %%, PostgreSQL %.0f %%, load %.0f %%, idle %.0f %%", of(u.servers), of(u.postgres), of(u.load), of(u.idle))
}

// since is what was used after an earlier use, for each of n.
func (u processorUse) since(before processorUse, n int) processorUse {
	each := func(now, then time.Duration) time.Duration { return (now - then) / time.Duration(n) }
	return processorUse{each(u.load, before.load), each(u.servers, before.servers), each(u.postgres, before.postgres), each(u.idle, before.idle)}
}

// processorTime is what was used so far. On a machine that others use too, time per
// delivery says more than deliveries per second. It is 0 where there is no /proc.
func processorTime() processorUse {
	parents, used, names := map[int]int{}, map[int]time.Duration{}, map[int]string{}
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return processorUse{}
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
		first, last := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
		fields := bytes.Fields(text[last+1:])
		if len(fields) < 13 {
			continue
		}
		parents[pid], names[pid] = number(fields[1]), string(text[first+1:last])
		used[pid] = time.Duration(number(fields[11])+number(fields[12])) * clockTick
	}
	u := processorUse{idle: idleTime()}
	for pid := range used {
		switch {
		case pid == os.Getpid():
			u.load += used[pid]
		case !descends(pid, parents):
		case names[pid] == "postgres":
			u.postgres += used[pid]
		default:
			u.servers += used[pid]
		}
	}
	return u
}

// descends reports whether a process is below this one.
func descends(pid int, parents map[int]int) bool {
	for ; pid > 1; pid = parents[pid] {
		if pid == os.Getpid() {
			return true
		}
	}
	return false
}

// idleTime is how long all processors had nothing to do, waits for disks included.
func idleTime() time.Duration {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	// proc(5): cpu user nice system idle iowait ...
	fields := bytes.Fields(text)
	if len(fields) < 6 {
		return 0
	}
	return time.Duration(number(fields[4])+number(fields[5])) * clockTick
}

func number(field []byte) int {
	n, _ := strconv.Atoi(string(field)) // the kernel's own
	return n
}
