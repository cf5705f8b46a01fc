package embedded

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/waypost/waypost/db/embedded/process"
)

// postmaster is what a cluster's postmaster.pid says. The server writes it line
// by line (PostgreSQL's src/include/utils/pidfile.h): a short file is one in the making.
type postmaster struct {
	pid       int
	socketDir string
	ready     bool
}

func pidFile(cluster string) string { return filepath.Join(cluster, "postmaster.pid") }

// readPostmaster returns an error that is os.ErrNotExist when there is no such file.
func readPostmaster(cluster string) (postmaster, error) {
	text, err := os.ReadFile(pidFile(cluster))
	if err != nil {
		return postmaster{}, err
	}
	return parsePostmaster(string(text)), nil
}

func parsePostmaster(text string) postmaster {
	lines := strings.Split(text, "\n")
	line := func(n int) string { // counted from 1, as pidfile.h does
		if n > len(lines) {
			return ""
		}
		return strings.TrimSpace(lines[n-1])
	}
	pid, err := strconv.Atoi(line(1))
	if err != nil || pid < 0 {
		pid = 0
	}
	return postmaster{pid: pid, socketDir: line(5), ready: line(8) == "ready"}
}

// running finds the server that owns the cluster; false when the pid file is
// missing, stale, or names a process that is something else by now.
func running(cluster string) (process.Process, postmaster, bool, error) {
	pm, err := readPostmaster(cluster)
	if os.IsNotExist(err) {
		return process.Process{}, postmaster{}, false, nil
	}
	if err != nil {
		return process.Process{}, postmaster{}, false, fmt.Errorf("embedded: %w", err)
	}
	p, err := process.Lookup(pm.pid)
	if err != nil || !serves(p, cluster) {
		return process.Process{}, pm, false, nil
	}
	return p, pm, true, nil
}

// serves reports whether p is the main process of a server on the cluster. Its
// command line is enough: a container's root may not see its working directory.
func serves(p process.Process, cluster string) bool {
	program, args, ok := strings.Cut(p.Command, " -D ")
	if !ok {
		return false
	}
	if name := filepath.Base(program); name != "postgres" && name != "postmaster" {
		return false
	}
	return args == cluster || strings.HasPrefix(args, cluster+" ") || p.WorksIn(cluster)
}

// leftovers are processes of a server that is gone: children that have not
// noticed its death, or a server whose starter was killed before it had a pid
// file. A second server beside them would damage the cluster.
func (l layout) leftovers() ([]process.Process, error) {
	prefix := "postgres: " + l.title() + ":"
	return process.Matching(func(p process.Process) bool {
		// A child keeps its server's command line until it has given itself a title.
		return strings.HasPrefix(p.Command, prefix) || serves(p, l.cluster())
	})
}
