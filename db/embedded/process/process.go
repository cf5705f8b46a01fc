// Package process looks at other processes of this machine, so that a pid read
// from a file is not taken for the process that once wrote it. It reads /proc
// where that exists and asks ps(1) elsewhere.
package process

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// ErrGone says that there is no such process, or only a zombie, which holds a
// pid (kill(pid, 0) succeeds) but runs nothing.
var ErrGone = errors.New("no such process")

// Process is what could be seen of a living process.
type Process struct {
	PID     int
	Started string // opaque; with PID it names one process among all there ever were since boot
	// Command is the arguments joined by spaces, or the title that the process gave
	// itself. It is its parent's, or empty, until the process has begun to run its
	// own program, a moment after its start.
	Command string
}

// Name is the base name of the program as the process was called.
func (p Process) Name() string {
	program, _, _ := strings.Cut(p.Command, " ")
	return filepath.Base(program)
}

// Lookup finds the process pid. It returns ErrGone when it does not run.
func Lookup(pid int) (Process, error) {
	if pid <= 0 {
		return Process{}, ErrGone
	}
	if hasProc() {
		return readProc(pid)
	}
	return askPS(pid)
}

// Alive reports whether p, and not a later process with its pid, still runs.
func (p Process) Alive() bool {
	now, err := Lookup(p.PID)
	return err == nil && now.Started == p.Started
}

// WorksIn reports whether the working directory of p is dir. It is false where
// that can't be seen: another user's process, or a system without /proc.
func (p Process) WorksIn(dir string) bool {
	a, err := os.Stat(filepath.Join("/proc", strconv.Itoa(p.PID), "cwd"))
	if err != nil {
		return false
	}
	b, err := os.Stat(dir)
	return err == nil && os.SameFile(a, b)
}

// Matching lists the living processes for which match is true.
func Matching(match func(Process) bool) ([]Process, error) {
	all, err := list()
	if err != nil {
		return nil, err
	}
	var found []Process
	for _, p := range all {
		if match(p) {
			found = append(found, p)
		}
	}
	return found, nil
}

func list() ([]Process, error) {
	if !hasProc() {
		return askPSAll()
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var all []Process
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if p, err := readProc(pid); err == nil { // others vanish while the list is read
			all = append(all, p)
		}
	}
	return all, nil
}

func hasProc() bool {
	_, err := os.Stat("/proc/self/stat")
	return err == nil
}

func readProc(pid int) (Process, error) {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	stat, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return Process{}, ErrGone
	}
	state, started, ok := parseStat(stat)
	if !ok || state == 'Z' || state == 'X' {
		return Process{}, ErrGone
	}
	cmdline, err := os.ReadFile(filepath.Join(dir, "cmdline"))
	if err != nil {
		return Process{}, ErrGone
	}
	command := strings.TrimRight(string(bytes.ReplaceAll(cmdline, []byte{0}, []byte{' '})), " ")
	return Process{PID: pid, Started: started, Command: command}, nil
}

// parseStat takes the state (field 3) and the start time in clock ticks since
// boot (field 22) from /proc/PID/stat, proc(5). Field 2, the name in
// parentheses, may hold spaces and parentheses itself.
func parseStat(stat []byte) (byte, string, bool) {
	end := bytes.LastIndexByte(stat, ')')
	if end < 0 {
		return 0, "", false
	}
	fields := bytes.Fields(stat[end+1:])
	if len(fields) < 20 {
		return 0, "", false
	}
	return fields[0][0], string(fields[19]), true
}
