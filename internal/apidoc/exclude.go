package apidoc

import (
	"regexp"
	"strings"
)

// exclusion says which paths stay out of the description.
type exclusion struct {
	globs    []*regexp.Regexp
	prefixes []string
}

// Shows says whether a description with these options has the routes of a path:
// for what else is said of routes.
func (o Options) Shows(path string) bool {
	return !newExclusion(o.ExcludeRoutes, o.ExcludePrefixes).covers(path)
}

func newExclusion(globs, prefixes []string) exclusion {
	e := exclusion{prefixes: prefixes}
	for _, g := range globs {
		e.globs = append(e.globs, compileGlob(g))
	}
	return e
}

// compileGlob reads * as anything within a segment and ** as anything at all; a
// pattern that ends in /** also means the path above.
func compileGlob(glob string) *regexp.Regexp {
	var b strings.Builder
	b.WriteString("^")
	rest, below := strings.CutSuffix(glob, "/**")
	for rest != "" {
		star := strings.IndexByte(rest, '*')
		if star < 0 {
			star = len(rest)
		}
		b.WriteString(regexp.QuoteMeta(rest[:star]))
		rest = rest[star:]
		switch {
		case strings.HasPrefix(rest, "**"):
			b.WriteString(".*")
			rest = rest[2:]
		case rest != "":
			b.WriteString("[^/]*")
			rest = rest[1:]
		}
	}
	if below {
		b.WriteString("(/.*)?")
	}
	b.WriteString("$")
	return regexp.MustCompile(b.String())
}

func (e exclusion) covers(path string) bool {
	for _, p := range e.prefixes {
		if strings.HasPrefix(path, p) {
			return true
		}
	}
	for _, g := range e.globs {
		if g.MatchString(path) {
			return true
		}
	}
	return false
}
