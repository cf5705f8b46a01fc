package demo

import (
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strconv"
	"time"
)

// hit is one event of a made-up visitor.
type hit struct {
	at        time.Time
	address   netip.Addr
	userAgent string
	url       string
	referrer  string
	name      string            // "" for a pageview
	props     map[string]string // of a custom event
}

// weighted is a value and how often it comes, relative to its neighbours.
type weighted struct {
	value  string
	weight float64
}

// The shapes of a small product's site.
var (
	pages = []weighted{
		{"/", 30}, {"/pricing", 14}, {"/docs", 13}, {"/docs/getting-started", 11}, {"/blog", 8},
		{"/docs/webhooks", 7}, {"/blog/never-lose-a-webhook", 6}, {"/features", 5}, {"/docs/statistics", 4},
		{"/blog/counting-without-cookies", 3}, {"/about", 2}, {"/changelog", 2}, {"/contact", 1},
	}
	referrers = []weighted{
		{"", 42}, {"https://www.google.com/", 26}, {"https://news.ycombinator.com/", 8}, {"https://github.com/", 7},
		{"https://duckduckgo.com/", 5}, {"https://www.bing.com/", 4}, {"https://t.co/x", 3},
		{"https://www.reddit.com/r/selfhosted/", 3}, {"https://lobste.rs/", 1}, {"https://dev.to/", 1},
	}
	campaigns = []weighted{
		{"", 88}, {"utm_source=newsletter&utm_medium=email&utm_campaign=monthly", 6},
		{"utm_source=google&utm_medium=cpc&utm_campaign=webhooks&utm_term=webhook+receiver", 4},
		{"utm_source=podcast&utm_medium=audio&utm_campaign=launch&utm_content=episode-12", 2},
	}
	userAgents = []weighted{
		{"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36", 28},
		{"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36", 14},
		{"Mozilla/5.0 (iPhone; CPU iPhone OS 18_6 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.6 Mobile/15E148 Safari/604.1", 17},
		{"Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Mobile Safari/537.36", 15},
		{"Mozilla/5.0 (X11; Linux x86_64; rv:143.0) Gecko/20100101 Firefox/143.0", 8},
		{"Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:143.0) Gecko/20100101 Firefox/143.0", 6},
		{"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.6 Safari/605.1.15", 7},
		{"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36 Edg/140.0.0.0", 4},
		{"Mozilla/5.0 (iPad; CPU OS 18_6 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.6 Mobile/15E148 Safari/604.1", 1},
	}
	// countries share the 60 networks that visitors come from.
	countries = []weighted{
		{"US", 19}, {"DE", 8}, {"GB", 6}, {"IN", 5}, {"FR", 4}, {"NL", 3}, {"CA", 3}, {"BR", 3}, {"JP", 2}, {"ES", 2}, {"PL", 2}, {"SE", 1}, {"IT", 1}, {"AU", 1},
	}
	plans = []weighted{{"free", 7}, {"team", 2}, {"business", 1}}
)

// visitorsPerDay is the middle of a working day's visitors.
const visitorsPerDay = 190

// traffic makes the hits of days whole days before until's, and of that day up to
// until, in order of time. Equal seeds make equal traffic.
func traffic(rng *rand.Rand, domain string, until time.Time, days int) []hit {
	var hits []hit
	today := until.UTC().Truncate(24 * time.Hour)
	for d := days; d >= 0; d-- {
		day := today.AddDate(0, 0, -d)
		growth := 0.7 + 0.3*float64(days-d)/float64(days)
		week := 1.0
		if wd := day.Weekday(); wd == time.Saturday || wd == time.Sunday {
			week = 0.55
		}
		n := int(visitorsPerDay * growth * week * math.Exp(rng.NormFloat64()*0.12))
		for range n {
			hits = append(hits, visits(rng, domain, day)...)
		}
	}
	hits = slices.DeleteFunc(hits, func(h hit) bool { return h.at.After(until) })
	slices.SortStableFunc(hits, func(a, b hit) int { return a.at.Compare(b.at) })
	return hits
}

// visits are one visitor's day: mostly one visit, at times a second.
func visits(rng *rand.Rand, domain string, day time.Time) []hit {
	who := hit{address: address(rng), userAgent: pick(rng, userAgents)}
	var hits []hit
	for range 1 + weightedBool(rng, 0.12) {
		hits = append(hits, visit(rng, who, domain, day.Add(timeOfDay(rng)))...)
	}
	return hits
}

// visit is a session: an entry with a source, then pages until interest ends.
func visit(rng *rand.Rand, who hit, domain string, at time.Time) []hit {
	root := "https://" + domain
	entry := who
	entry.at, entry.url, entry.referrer = at, root+pick(rng, pages), pick(rng, referrers)
	if c := pick(rng, campaigns); c != "" {
		entry.url += "?" + c
	}
	hits := []hit{entry}
	for rng.Float64() < 0.56 && len(hits) < 20 {
		at = at.Add(time.Duration((8 + rng.ExpFloat64()*55) * float64(time.Second)))
		next := who
		next.at, next.url, next.referrer = at, root+pick(rng, pages), hits[len(hits)-1].url
		hits = append(hits, next)
	}
	last := hits[len(hits)-1]
	switch {
	case len(hits) > 2 && rng.Float64() < 0.16:
		hits = append(hits, event(rng, last, "signup", map[string]string{"plan": pick(rng, plans)}))
	case rng.Float64() < 0.05:
		hits = append(hits, event(rng, last, "download", map[string]string{"file": "waypost-1." + strconv.Itoa(rng.IntN(4)) + ".tar.gz"}))
	}
	return hits
}

func event(rng *rand.Rand, on hit, name string, props map[string]string) hit {
	on.at = on.at.Add(time.Duration(3+rng.IntN(40)) * time.Second)
	on.name, on.props = name, props
	return on
}

// timeOfDay follows two humps, late morning and early evening.
func timeOfDay(rng *rand.Rand) time.Duration {
	for {
		hour := 10.5 + rng.NormFloat64()*2.6
		if rng.Float64() < 0.38 {
			hour = 19 + rng.NormFloat64()*2.2
		}
		if hour >= 0 && hour < 23.5 {
			return time.Duration(hour * float64(time.Hour))
		}
	}
}

// The networks of made-up visitors, by their first octet.
const (
	firstNetwork = 60
	networks     = 60
)

// Country is where a made-up visitor's address lies: a demo needs no database of
// countries, and the addresses are nobody's in particular.
func Country(a netip.Addr) string {
	n := float64(a.As4()[0]) - firstNetwork
	for _, c := range countries {
		if n -= c.weight; n < 0 {
			return c.value
		}
	}
	return ""
}

// address is from the public unicast space; it lives only as long as it takes to
// hash it.
func address(rng *rand.Rand) netip.Addr {
	return netip.AddrFrom4([4]byte{byte(firstNetwork + rng.IntN(networks)), byte(rng.IntN(256)), byte(rng.IntN(256)), byte(1 + rng.IntN(254))})
}

func weightedBool(rng *rand.Rand, p float64) int {
	if rng.Float64() < p {
		return 1
	}
	return 0
}

func pick(rng *rand.Rand, from []weighted) string {
	total := 0.0
	for _, w := range from {
		total += w.weight
	}
	x := rng.Float64() * total
	for _, w := range from {
		if x -= w.weight; x < 0 {
			return w.value
		}
	}
	return from[len(from)-1].value
}
