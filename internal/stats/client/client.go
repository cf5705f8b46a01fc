// Package client tells from a user agent what kind of device, browser and
// operating system sent a request, and whether a program rather than a person did.
package client

import (
	"strings"

	useragent "github.com/medama-io/go-useragent"
	"github.com/medama-io/go-useragent/agents"
)

// MaxUserAgent is how many bytes of a user agent are looked at.
const MaxUserAgent = 512

// cacheSize bounds each of the cache's two generations: with user agents of
// MaxUserAgent bytes at most 5 MiB together.
const cacheSize = 4096

// Client is what a user agent says. The labels come from closed lists; a label
// is empty where nothing is known.
type Client struct {
	Device  string // desktop, mobile, tablet
	Browser string // Chrome, Firefox, Safari, Edge, ...
	OS      string // Windows, macOS, Linux, iOS, Android, ChromeOS, ...
	Bot     bool   // a crawler, a feed reader, a library, a driven browser
}

// Parser reads user agents and remembers the recent ones. It may be used
// concurrently.
type Parser struct {
	parser *useragent.Parser
	bots   *botMatcher
	cache  *cache
}

// NewParser compiles the lists of automated clients.
func NewParser() (*Parser, error) {
	bots, err := newBotMatcher(crawlerPatterns, ownRules)
	if err != nil {
		return nil, err
	}
	return &Parser{parser: useragent.NewParser(), bots: bots, cache: newCache(cacheSize)}, nil
}

// Parse reads the first MaxUserAgent bytes of userAgent. An empty one is a bot:
// every browser sends one.
func (p *Parser) Parse(userAgent string) Client {
	userAgent = userAgent[:min(len(userAgent), MaxUserAgent)]
	if found, ok := p.cache.get(userAgent); ok {
		return found
	}
	// The caller's string may be a slice of something much larger.
	userAgent = strings.Clone(userAgent)
	found := Client{Bot: true}
	if !p.bots.match(userAgent) {
		found = p.describe(userAgent)
	}
	p.cache.put(userAgent, found)
	return found
}

func (p *Parser) describe(userAgent string) Client {
	agent := p.parser.Parse(userAgent)
	c := Client{Browser: browserLabel(agent.Browser()), OS: osLabel(agent.OS())}
	switch {
	case agent.IsTablet(), agent.IsMobile() && isAndroidTablet(agent, userAgent):
		c.Device = "tablet"
	case agent.IsMobile():
		c.Device = "mobile"
	case agent.IsDesktop():
		c.Device = "desktop"
	}
	return c
}

// isAndroidTablet goes by the token that Android browsers send on telephones
// only: https://developer.chrome.com/docs/privacy-security/user-agent, "Chrome
// for Android".
func isAndroidTablet(agent useragent.UserAgent, userAgent string) bool {
	return agent.OS() == agents.OSAndroid && !strings.Contains(userAgent, "Mobile")
}

func browserLabel(b agents.Browser) string {
	if b == agents.BrowserIE {
		return "Internet Explorer"
	}
	return string(b)
}

func osLabel(o agents.OS) string {
	if o == agents.OSMacOS {
		return "macOS"
	}
	return string(o)
}
