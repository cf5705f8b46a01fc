// Command bench measures Waypost against the limits that its figures are held
// to, both in the same run, and prints each as a ratio. The load generator runs
// on the same machine and shares its processors with the server and PostgreSQL.
//
//	go run ./e2e/bench                    # all figures at full size
//	go run ./e2e/bench -run stats         # those whose name matches
//	go run ./e2e/bench -events 200000     # a quick run
//	go run ./e2e/bench -run 'stats$' -data /var/tmp/bench
//	                                      # fills the year once and keeps it
//
// Programs of PostgreSQL are found as by waypost dev.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"time"
)

// figure is one measured promise.
type figure struct {
	name string
	what string
	run  func(ctx context.Context, w *world) error
}

// figures is every figure, in the order of the documentation.
var figures = []figure{
	{"webhooks", "webhook deliveries/s over HTTP without a handler, against bare single-row INSERTs", webhooksFigure},
	{"webhooks-noop", "webhook deliveries/s over HTTP with a no-op handler, against INSERT, then UPDATE", webhooksNoopFigure},
	{"webhooks-effect", "the same with a handler that writes in the event's transaction, against INSERT, then that and UPDATE", webhooksEffectFigure},
	{"forward", "events forwarded/s to a local target, against INSERT, then UPDATE; how long one takes when idle, and beside a target that hangs", forwardFigure},
	{"lists", "the list of a million deliveries by every filter", listsFigure},
	{"audit", "audited mutations/s against the same without triggers, time to a place in the chain, verified rows/s; deliveries and hits with triggers and without", auditFigure},
	{"overload", "more webhooks than can be stored, for minutes: memory, refusals, and whether each 200 has its row", overloadFigure},
	{"collect", "collected events/s over HTTP, durable before 202, against COPY of the same rows", collectFigure},
	{"import", "lines/s of a month's file from the command line, against COPY of the same rows", importFigure},
	{"stats", "each stats endpoint over 12 months, against the same with a tenth of the events", statsFigure},
	{"stats-filtered", "each stats endpoint over 12 months with one and two filters, of common and rare values, with * and with properties", statsFilteredFigure},
	{"stats-report", "reports of several endpoints, and rows with metrics, over 12 months with one filter", statsReportFigure},
	{"search", "q among a million posts, for words that 0.01 %, 1 % and 30 % of them have, alone and in pairs", searchFigure},
	{"pages", "every page of the desk with a million deliveries and ten million events behind it", pagesFigure},
	{"neighbours", "isolation: deliveries and hits beside 40 expensive questions at once, against without them", neighboursFigure},
	{"start", "start to ready on an existing database, memory when idle, size of the binary", startFigure},
	{"stats-open-day", "each stats endpoint over a day that goes on, and over one with 100,000 paths", openDayFigure},
	{"login-timing", "a sign-in with a wrong password, against one with an unknown address", loginTimingFigure},
	{"login-flood", "sign-ins of people beside 150 connections that sign in rightly without end: p99, refusals, memory", loginFloodFigure},
	{"uploads", "uploads/s and downloads/s of 1 MiB and 64 KiB files, against net/http to a file with fsync of file and directory, and from a file", uploadsFigure},
	{"ai", "calls through the AI gateway, against the upstream called straight; tokens relayed/s, against a plain reverse proxy; memory of 500 streams at once", aiFigure},
	{"docs", "GET /docs/openapi.json, against net/http serving the same bytes", docsFigure},
}

// sizes are how much is measured.
type sizes struct {
	events  int // of the statistics' large site; the small one has a tenth
	openDay int // events of the day that goes on
	posts   int // that are searched
	// deliveries are behind the desk's pages, and a tenth as many of everything else.
	deliveries int
	requests   int // per endpoint
	collect    time.Duration
	webhooks   time.Duration
	docs       time.Duration
	uploads    time.Duration
	ai         time.Duration // how long tokens are relayed in each round
	explains   bool
	places     int // of a target of the forwards at a time; 0 for the default
	overload   time.Duration
	flood      time.Duration // how long each flood of sign-ins goes on
	// neighbours is how long questions are asked beside deliveries and hits.
	neighbours time.Duration
	// statsTimeout bounds each of these questions.
	statsTimeout time.Duration
	profile      string // where the service that is measured writes its CPU profile
	data         string // keeps the databases of the statistics' figures; empty for none
}

func main() {
	if another, err := runAnother(context.Background()); another {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	run := flag.String("run", "", "regular expression of the figures to measure; all by default")
	var s sizes
	flag.IntVar(&s.events, "events", 10_000_000, "events of the large site")
	flag.IntVar(&s.openDay, "open-day", 1_000_000, "events of the day that goes on")
	flag.IntVar(&s.posts, "posts", 1_000_000, "posts that are searched")
	flag.IntVar(&s.deliveries, "deliveries", 1_000_000, "deliveries that are listed, and behind the desk's pages, and a tenth as many accounts, jobs, mails and files")
	flag.IntVar(&s.requests, "requests", 200, "requests to each endpoint, search or page")
	flag.DurationVar(&s.collect, "collect", 10*time.Second, "how long hits are collected in each round")
	flag.DurationVar(&s.webhooks, "webhooks", 8*time.Second, "how long webhooks are delivered in each round")
	flag.IntVar(&s.places, "places", 0, "attempts at once at each target of the forwards; 0 is Waypost's default")
	flag.DurationVar(&s.docs, "docs", 10*time.Second, "how long the description is requested in each coding, from either side")
	flag.DurationVar(&s.uploads, "uploads", 3*time.Second, "how long files are sent and read in each round")
	flag.DurationVar(&s.ai, "ai", 3*time.Second, "how long tokens are relayed in each round")
	flag.DurationVar(&s.overload, "overload", 5*time.Minute, "how long too many webhooks are delivered")
	flag.DurationVar(&s.flood, "flood", time.Minute, "how long each flood of sign-ins goes on")
	flag.DurationVar(&s.neighbours, "neighbours", time.Minute, "how long questions are asked beside deliveries and hits")
	flag.DurationVar(&s.statsTimeout, "stats-timeout", 25*time.Second, "longest time that the service spends on one of the questions beside deliveries and hits")
	flag.StringVar(&s.profile, "profile", "", "file for the CPU profile of the service that takes webhooks, events or files, or serves the description")
	flag.StringVar(&s.data, "data", "", "directory that keeps the filled databases of figures that take long to fill, for the next run")
	flag.BoolVar(&s.explains, "explain", false, "print the plans of the statistics' queries")
	flag.Parse()
	wanted, err := regexp.Compile("^(" + *run + ")")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	for _, f := range figures {
		if !wanted.MatchString(f.name) {
			continue
		}
		fmt.Printf("== %s: %s\n", f.name, f.what)
		if err := measure(ctx, f, s); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", f.name, err)
			os.Exit(1)
		}
	}
}

// runAnother is what this program does in the processes that figures start of it:
// true unless this is the first.
func runAnother(ctx context.Context) (bool, error) {
	if address := os.Getenv(envHandlers); address != "" {
		return true, runHandlers(ctx, address)
	}
	if dir := os.Getenv(envPlain); dir != "" {
		return true, runPlain(ctx, dir)
	}
	if what := os.Getenv(envUpstream); what != "" {
		return true, runUpstream(ctx, what)
	}
	if dir := os.Getenv(envFiles); dir != "" {
		return true, runFiles(ctx, dir)
	}
	return false, nil
}

// measure gives each figure a server of its own, so that none pays for another.
func measure(ctx context.Context, f figure, s sizes) error {
	w, err := newWorld(ctx, f.name, s)
	if err != nil {
		return err
	}
	defer w.close()
	return f.run(ctx, w)
}
