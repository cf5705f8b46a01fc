package embedded

import (
	"context"
	"os"
	"path/filepath"
	"time"
)

// originFile in a relocated home names the data directory it was made for.
const originFile = "origin"

// relocate makes a home outside the data directory, and stops the servers of
// earlier ones made for the same path: that data directory was deleted or moved
// away. Their files stay, since who moved it may want them.
func relocate(o Options, home string) error {
	earlier, err := filepath.Glob(filepath.Join(escapeGlob(o.RelocationDir), "*", originFile))
	if err != nil {
		return err
	}
	for _, file := range earlier {
		text, err := os.ReadFile(file)
		if err != nil || string(text) != o.DataDir {
			continue
		}
		stopAbandoned(o, layout{home: filepath.Dir(file)})
	}
	if err := os.Mkdir(home, 0o700); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(home, originFile), []byte(o.DataDir), 0o600)
}

func stopAbandoned(o Options, l layout) {
	o.Logger.Warn("an earlier data directory at this path has left its cluster; delete the cluster if you need nothing in it", "cluster", l.home)
	p, _, alive, err := running(l.cluster())
	if err != nil || !alive {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := adopt(p).shutdown(ctx); err != nil {
		o.Logger.Warn("stopping that cluster's server", "error", err)
	}
}
