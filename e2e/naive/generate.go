package naive

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"sort"
	"strings"
	"time"
)

// Traffic says what traffic to make up.
type Traffic struct {
	Seed     uint64
	Start    time.Time // of the first local day
	Days     int
	Zone     *time.Location // the site's: visits crowd around its midnights
	Visitors int            // per day
	Domain   string
}

// browsers and bots are what the log's visitors send.
var browsers = []string{
	"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/124.0.0.0 Safari/537.36",
	"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.4 Safari/605.1.15",
	"Mozilla/5.0 (X11; Linux x86_64; rv:125.0) Gecko/20100101 Firefox/125.0",
	"Mozilla/5.0 (iPhone; CPU iPhone OS 17_4 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.4 Mobile/15E148 Safari/604.1",
	"Mozilla/5.0 (iPad; CPU OS 17_4 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.4 Mobile/15E148 Safari/604.1",
	"Mozilla/5.0 (Linux; Android 14; Pixel 8) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/124.0.0.0 Mobile Safari/537.36",
	"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/124.0.0.0 Safari/537.36 Edg/124.0.0.0",
}

var bots = []string{
	"Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
	"curl/8.5.0",
	"-",
}

// gaps are between a visitor's requests, the ones about half an hour most often.
var gaps = []time.Duration{
	0, time.Second, 40 * time.Second, 7 * time.Minute,
	30*time.Minute - time.Second, 30 * time.Minute, 30*time.Minute + time.Second,
	30*time.Minute - time.Second, 30 * time.Minute, 30*time.Minute + time.Second,
	31 * time.Minute, 3 * time.Hour,
}

// request is one line's worth.
type request struct {
	at                               time.Time
	address, userAgent, target, from string
	method, status                   string
	broken                           string // a line that is none, instead
	name                             string // of a custom event
	props                            map[string]any
}

// Log writes a combined log: the same for the same Traffic. Lines are nearly in
// time order, as servers write them; some are no pageviews, some no lines.
func (t Traffic) Log(w io.Writer) error {
	for _, r := range t.requests() {
		line := r.broken
		if line == "" {
			line = fmt.Sprintf(`%s - - [%s] "%s %s HTTP/1.1" %s 512 "%s" "%s"`,
				r.address, r.at.Format(stampLayout), r.method, r.target, r.status, r.from, r.userAgent)
		}
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	return nil
}

// Events writes the same traffic as one JSON object a line, with custom events
// and properties among the pageviews, and instants to the microsecond.
func (t Traffic) Events(w io.Writer) error {
	out := json.NewEncoder(w)
	for i, r := range t.requests() {
		host := "www."
		if i%5 == 0 {
			host = "blog."
		}
		e := event{
			TS: r.at.Add(time.Duration(i%1000) * time.Microsecond), URL: "https://" + host + t.Domain + r.target,
			Name: r.name, Props: r.props, IP: r.address, UserAgent: r.userAgent,
		}
		if r.from != "-" {
			e.Referrer = r.from
		}
		if err := out.Encode(e); err != nil {
			return err
		}
	}
	return nil
}

func (t Traffic) requests() []request {
	random := rand.New(rand.NewPCG(t.Seed, 1))
	var all []request
	for day := range t.Days {
		for range t.Visitors {
			all = append(all, t.visit(random, day)...)
		}
	}
	sort.SliceStable(all, func(i, j int) bool { return all[i].at.Before(all[j].at) })
	for i := 1; i < len(all); i++ {
		if random.IntN(10) == 0 {
			all[i-1], all[i] = all[i], all[i-1]
		}
	}
	return all
}

// visit is one visitor's requests, which may run into the following days.
func (t Traffic) visit(random *rand.Rand, day int) []request {
	y, m, d := t.Start.In(t.Zone).Date()
	at := time.Date(y, m, d+day, 0, 0, random.IntN(86400), 0, t.Zone)
	if random.IntN(3) == 0 { // near a midnight
		at = time.Date(y, m, d+day+1, 0, 0, random.IntN(5400)-4500, 0, t.Zone)
	}
	address := fmt.Sprintf("198.51.100.%d", random.IntN(40))
	userAgent := pick(random, browsers)
	if random.IntN(8) == 0 {
		userAgent = pick(random, bots)
	}
	var visit []request
	for range 1 + random.IntN(6) {
		r := t.request(random)
		r.at, r.address, r.userAgent = at, address, userAgent
		visit = append(visit, r)
		at = at.Add(pick(random, gaps))
	}
	return visit
}

func (t Traffic) request(random *rand.Rand) request {
	pages := []string{"/", "/pricing", "/docs/intro", "/blog/1", "/blog/2", "/über", "/a%20b", "/v1.2", "/" + strings.Repeat("é", 600)}
	queries := []string{
		"", "", "", "?q=1&page=2", "?utm_source=news&utm_medium=mail&utm_campaign=spring%20sale",
		"?utm_source=ads&utm_term=a+b&utm_content=top", "?utm_source=(other)", "?utm_medium=", "?ref=x#part",
	}
	referrers := []string{
		"-", "-", "https://www.google.com/", "https://news.ycombinator.com/item?id=1", "http://www.Example.ORG:8080/a",
		"https://" + t.Domain + "/docs", "https://www." + t.Domain + "/", "https://blog." + t.Domain + "/x", "http://not" + t.Domain + "/",
	}
	r := request{method: "GET", status: "200", target: pick(random, pages) + pick(random, queries), from: pick(random, referrers)}
	switch random.IntN(24) {
	case 0:
		r.method = pick(random, []string{"POST", "HEAD", "OPTIONS"})
	case 1:
		r.status = pick(random, []string{"301", "404", "500", "206"})
	case 2:
		r.status = "304"
	case 3:
		r.target = pick(random, []string{"/style.css", "/logo.PNG", "/feed.xml"})
	case 4:
		r.broken = pick(random, []string{"   ", "- - -", `198.51.100.1 - - [32/May/2024:00:00:00 +0000] "GET / HTTP/1.1" 200 1 "-" "Mozilla/5.0"`,
			`198.51.100.1 - - [01/May/2024:00:00:00 +0000] "GET /cut HTTP/1.1" 200 1 "-" "Mozilla/5.0 (compat`})
	case 5, 6, 7, 8:
		r.name = pick(random, []string{"signup", "play", "Play", "save"})
		r.props = map[string]any{"plan": pick(random, []string{"free", "team", ""}), pick(random, []string{"a", "b"}): random.IntN(2)}
	case 9:
		r.name = "pageview"
	}
	return r
}

const stampLayout = "02/Jan/2006:15:04:05 -0700"

func pick[T any](random *rand.Rand, from []T) T { return from[random.IntN(len(from))] }
