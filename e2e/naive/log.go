package naive

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"path"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"
)

// Agent is what a user agent is.
type Agent struct {
	Bot                 bool
	Device, Browser, OS string
}

// Log says how a log is read.
type Log struct {
	Domain   string                       // of the site: it and its subdomains are no referrers
	Classify func(userAgent string) Agent // the one thing that needs a library
	Common   bool                         // without referrers and user agents, in the common format
	Skipped  map[string]int               // filled by Read: lines by reason
	Counted  int                          // filled by Read: lines that became hits
}

var common = regexp.MustCompile(`^(\S+) \S+ .*?\[([^\]]+)\] "(\S+) ((?:[^"\\ ]|\\.)+)(?:[^"\\]|\\.)*" (\d{3}) \S+()()`)

var combined = regexp.MustCompile(`^(\S+) \S+ .*?\[([^\]]+)\] "(\S+) ((?:[^"\\ ]|\\.)+)(?:[^"\\]|\\.)*" (\d{3}) \S+ "((?:[^"\\]|\\.)*)" "((?:[^"\\]|\\.)*)"`)

// assets is the product's documented list of extensions that are no pages.
const assets = ` css js mjs map wasm webmanifest avif bmp gif ico jpeg jpg png svg svgz tif tiff webp eot otf ttf woff woff2
 aac flac flv m4a m4v mov movie mp2 mp3 mp4 mpeg mpg oga ogg ogv opus qt qtm ra ram wav weba webm wma wmv asf asx avi
 atom csv json rss sea txt xml xsd azw3 doc docx epub ibooks mobi odb odf odg odp ods odt pdf ppt pptx rtf wpd xls xlsx
 7z apk arc arj bin bz2 deb dmg exe gz gzip hqx iso jar msi msp pkg rar rpm sit tar tbz tbz2 tgz torrent xz z zip zst
 class swf phps `

var isAsset = func() map[string]bool {
	set := map[string]bool{}
	for _, e := range strings.Fields(assets) {
		set["."+e] = true
	}
	return set
}()

// Read turns a log into pageviews.
func (l *Log) Read(r io.Reader) []Hit {
	l.Skipped = map[string]int{}
	var hits []Hit
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		hit, reason := l.line(lines.Text())
		if reason != "" {
			l.Skipped[reason]++
			continue
		}
		l.Counted++
		hits = append(hits, hit)
	}
	if err := lines.Err(); err != nil {
		panic("naive: " + err.Error())
	}
	return hits
}

func (l *Log) line(text string) (Hit, string) {
	format := combined
	if l.Common {
		format = common
	}
	m := format.FindStringSubmatch(text)
	if m == nil {
		return Hit{}, "malformed"
	}
	address, stamp, method, status := strings.ToLower(m[1]), m[2], m[3], m[5]
	target, referrer, userAgent := unescape(m[4]), unescape(m[6]), unescape(m[7])
	at, err := time.Parse(stampLayout, stamp)
	if err != nil {
		return Hit{}, "malformed"
	}
	if method != "GET" {
		return Hit{}, "method"
	}
	if status != "200" && status != "304" {
		return Hit{}, "status"
	}
	page, query, _ := strings.Cut(strings.Split(target, "#")[0], "?")
	if isAsset[strings.ToLower(path.Ext(page))] {
		return Hit{}, "asset"
	}
	if userAgent == "-" {
		userAgent = ""
	}
	var agent Agent // who names none in a format without user agents is no bot
	if !l.Common {
		agent = l.Classify(userAgent)
	}
	if agent.Bot {
		return Hit{}, "bot"
	}
	return l.hit(at, address, userAgent, page, query, referrer, agent), ""
}

func (l *Log) hit(at time.Time, address, userAgent, page, query, referrer string, agent Agent) Hit {
	hit := Hit{At: at, Visitor: address + " " + userAgent, Path: cut(page, 1024), Labels: map[string]string{
		"source": l.source(referrer), "device": agent.Device, "browser": agent.Browser, "os": agent.OS,
	}}
	params, _ := url.ParseQuery(query)
	for _, name := range []string{"utm_source", "utm_medium", "utm_campaign", "utm_term", "utm_content"} {
		hit.Labels[name] = params.Get(name)
	}
	return hit
}

// event is a line of NDJSON, as the product documents it.
type event struct {
	TS        time.Time      `json:"ts"`
	URL       string         `json:"url"`
	Referrer  string         `json:"referrer,omitempty"`
	Name      string         `json:"name,omitempty"`
	Props     map[string]any `json:"props,omitempty"`
	IP        string         `json:"ip"`
	UserAgent string         `json:"user_agent"`
}

// ReadEvents turns NDJSON into hits.
func (l *Log) ReadEvents(r io.Reader) []Hit {
	l.Skipped = map[string]int{}
	var hits []Hit
	for in := json.NewDecoder(r); ; {
		var e event
		err := in.Decode(&e)
		if err == io.EOF {
			return hits
		}
		if err != nil {
			panic("naive: " + err.Error())
		}
		agent := l.Classify(e.UserAgent)
		if agent.Bot {
			l.Skipped["bot"]++
			continue
		}
		host, target, _ := strings.Cut(strings.TrimPrefix(e.URL, "https://"), "/")
		page, query, _ := strings.Cut(strings.Split("/"+target, "#")[0], "?")
		hit := l.hit(e.TS, e.IP, e.UserAgent, page, query, e.Referrer, agent)
		hit.Labels["hostname"] = host
		if e.Name != "pageview" {
			hit.Name = e.Name
		}
		for key, value := range e.Props {
			if hit.Props == nil {
				hit.Props = map[string]string{}
			}
			hit.Props[key] = fmt.Sprint(value)
		}
		l.Counted++
		hits = append(hits, hit)
	}
}

var originOf = regexp.MustCompile(`^(?i:https?|android-app)://(?:[^/?#]*@)?([^/?#:]+)`)

// source is the referrer's host without www., empty for the site's own.
func (l *Log) source(referrer string) string {
	m := originOf.FindStringSubmatch(referrer)
	if m == nil {
		return ""
	}
	host := strings.ToLower(m[1])
	if host == l.Domain || strings.HasSuffix(host, "."+l.Domain) {
		return ""
	}
	return strings.TrimPrefix(host, "www.")
}

var escape = regexp.MustCompile(`\\(x[0-9a-fA-F]{2}|["\\])`)

// unescape resolves the escapes that servers write for quotes and odd bytes.
func unescape(field string) string {
	return escape.ReplaceAllStringFunc(field, func(e string) string {
		if e[1] != 'x' {
			return e[1:]
		}
		b, _ := hex.DecodeString(e[2:])
		return string(b)
	})
}

// cut shortens s to at most n bytes at the end of a character.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
