package httpedge

import (
	"context"
	"iter"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/waypost/waypost/internal/text"
)

// maxShownEntry bounds what a warning shows of an entry that can't be read, in bytes.
const maxShownEntry = 100

// clients tells who a request comes from. X-Forwarded-For is believed from trusted
// peers alone, and read from its end, where the nearest proxy wrote.
type clients struct {
	trusted []netip.Prefix
	logger  *slog.Logger
	seen    *Forwarding // nil for nobody
	// ignored and unreadable are whether that was said, of peers in public and in
	// private networks: strangers who send the header must not use up the warning
	// about the operator's own proxy.
	ignored, unreadable oncePerNetwork
}

// Forwarding is what was seen of peers in private networks, which are likely an
// operator's own, whose X-Forwarded-For says nothing. Strangers can't get into it.
type Forwarding struct {
	ignored, unreadable atomic.Pointer[netip.Addr]
}

// Ignored is the first peer whose header is not believed, the zero Addr for none.
func (f *Forwarding) Ignored() netip.Addr { return addressIn(&f.ignored) }

// Unreadable is the first trusted peer whose header can't be read, the zero Addr for none.
func (f *Forwarding) Unreadable() netip.Addr { return addressIn(&f.unreadable) }

func addressIn(p *atomic.Pointer[netip.Addr]) netip.Addr {
	if a := p.Load(); a != nil {
		return *a
	}
	return netip.Addr{}
}

// oncePerNetwork is done once for peers in public networks and once for all others.
type oncePerNetwork struct{ public, private sync.Once }

func (o *oncePerNetwork) of(peer netip.Addr) *sync.Once {
	if isPrivate(peer) {
		return &o.private
	}
	return &o.public
}

func isPrivate(a netip.Addr) bool {
	return a.IsPrivate() || a.IsLoopback() || a.IsLinkLocalUnicast()
}

// address is the client's, without a zone and never an IPv4-mapped one; invalid when
// there is none. It is the nearest hop that is not trusted, or the farthest where all
// are; hops from an entry on that can't be read do not count.
func (c *clients) address(r *http.Request) netip.Addr {
	peer, ok := parseAddress(r.RemoteAddr)
	if !ok {
		return netip.Addr{}
	}
	header := r.Header["X-Forwarded-For"]
	if len(header) == 0 {
		return peer
	}
	if !c.trusts(peer) {
		c.warnIgnored(r.Context(), peer)
		return peer
	}
	client := peer
	for entry := range fromTheEnd(header) {
		hop, ok := parseAddress(entry)
		if !ok {
			c.warnUnreadable(r.Context(), peer, entry)
			break
		}
		if client = hop; !c.trusts(hop) {
			break
		}
	}
	return client
}

func (c *clients) trusts(a netip.Addr) bool {
	return slices.ContainsFunc(c.trusted, func(p netip.Prefix) bool { return p.Contains(a) })
}

func (c *clients) warnIgnored(ctx context.Context, peer netip.Addr) {
	c.ignored.of(peer).Do(func() {
		if c.seen != nil && isPrivate(peer) {
			c.seen.ignored.Store(&peer)
		}
		c.logger.WarnContext(ctx, "X-Forwarded-For is ignored, because its sender is not in WAYPOST_TRUSTED_PROXIES. "+
			"If that is your proxy, add it: until then all of its clients share one address, and with it the limits of one",
			"sender", peer.String())
	})
}

func (c *clients) warnUnreadable(ctx context.Context, peer netip.Addr, entry string) {
	c.unreadable.of(peer).Do(func() {
		if c.seen != nil && isPrivate(peer) {
			c.seen.unreadable.Store(&peer)
		}
		c.logger.WarnContext(ctx, "X-Forwarded-For of a trusted proxy can't be read: an entry is neither an address nor an address with a port. "+
			"Until the proxy sends addresses, all of its clients share one, and with it the limits of one",
			"sender", peer.String(), "entry", text.MakeStorable(entry[:min(len(entry), maxShownEntry)], "?"))
	})
}

// fromTheEnd is the entries of a header's lines, the last one first.
func fromTheEnd(lines []string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, rest := range slices.Backward(lines) {
			for more := true; more; {
				entry := rest
				if i := strings.LastIndexByte(rest, ','); i >= 0 {
					rest, entry = rest[:i], rest[i+1:]
				} else {
					more = false
				}
				if entry = strings.TrimSpace(entry); entry != "" && !yield(entry) {
					return
				}
			}
		}
	}
}

// parseAddress reads an address, which may have a port: 192.0.2.1, 192.0.2.1:80,
// 2001:db8::1, [2001:db8::1], [2001:db8::1]:80. An IPv4 address in IPv6's form is an
// IPv4 address, and a zone is dropped: neither may hide an address from a list.
func parseAddress(s string) (netip.Addr, bool) {
	if a, err := netip.ParseAddrPort(s); err == nil {
		return a.Addr().Unmap().WithZone(""), true
	}
	if inner, ok := strings.CutPrefix(s, "["); ok {
		if s, ok = strings.CutSuffix(inner, "]"); !ok || !strings.Contains(s, ":") {
			return netip.Addr{}, false
		}
	}
	a, err := netip.ParseAddr(s)
	if err != nil {
		return netip.Addr{}, false
	}
	return a.Unmap().WithZone(""), true
}
