package app

import (
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/waypost/waypost/api"
)

// Build says what this program was made of.
type Build struct {
	Version string // of the API
	Commit  string // with "+changes" where the tree had some; "unknown" without version control
	Go      string
}

// gauge is always 1; its labels tell which programs run, also beside each other.
func (b Build) gauge() prometheus.Collector {
	g := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "waypost_build_info", Help: "Always 1. The labels say what the program was made of.",
		ConstLabels: prometheus.Labels{"version": b.Version, "commit": b.Commit, "go": b.Go},
	})
	g.Set(1)
	return g
}

// ThisBuild reads what the compiler noted.
func ThisBuild() Build {
	b := Build{Version: api.Version, Commit: "unknown"}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	b.Go = info.GoVersion
	changed := false
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.modified":
			changed = s.Value == "true"
		}
	}
	if changed {
		b.Commit += "+changes"
	}
	return b
}
