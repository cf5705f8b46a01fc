package process

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
)

// columns are in POSIX or in both BSD's and macOS's ps. lstart is five words,
// the same width everywhere: "Thu Nov 21 13:41:00 2024".
const columns = "pid=,stat=,lstart=,command="

func askPS(pid int) (Process, error) {
	out, err := ps("-ww", "-o", columns, "-p", strconv.Itoa(pid))
	if err != nil { // ps exits with 1 when there is no such process
		return Process{}, ErrGone
	}
	p, ok := parsePS(string(out))
	if !ok {
		return Process{}, ErrGone
	}
	return p, nil
}

// ps runs in the C locale, since another one may give lstart more or fewer words.
func ps(args ...string) ([]byte, error) {
	cmd := exec.Command("ps", args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	return cmd.Output()
}

func askPSAll() ([]Process, error) {
	out, err := ps("-axww", "-o", columns)
	if err != nil {
		return nil, err
	}
	var all []Process
	for line := range strings.Lines(string(out)) {
		if p, ok := parsePS(line); ok {
			all = append(all, p)
		}
	}
	return all, nil
}

// parsePS reads one line of ps; false for a zombie or an illegible line.
func parsePS(line string) (Process, bool) {
	const lead = 7 // pid, stat, five words of lstart
	rest := strings.TrimSpace(line)
	words := make([]string, 0, lead)
	for len(words) < lead {
		word, after, _ := strings.Cut(rest, " ")
		if word == "" {
			return Process{}, false
		}
		words = append(words, word)
		rest = strings.TrimLeft(after, " ")
	}
	pid, err := strconv.Atoi(words[0])
	if err != nil || strings.HasPrefix(words[1], "Z") {
		return Process{}, false
	}
	return Process{PID: pid, Started: strings.Join(words[2:], " "), Command: rest}, true
}
