package account

import (
	"context"
	"net/netip"

	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/throttle"
)

const (
	// clientBits are of an IPv6 address what one client can't easily change.
	clientBits = 64
	// siteBits are what somebody has who has many of those.
	siteBits = 48
	// wider is how many times what one network may, all of a /48 may together.
	wider = 2
)

// nat64 is where IPv4 clients of an IPv6-only network are (RFC 6052 section 2.1).
var nat64 = netip.MustParsePrefix("64:ff9b::/96")

// prefixOf is the network of a client: an IPv4 address, or the IPv6 /64 or shorter
// prefix around an address. IPv4 clients behind NAT64 are told apart.
func prefixOf(a netip.Addr, bits int) netip.Prefix {
	a = a.Unmap().WithZone("")
	if nat64.Contains(a) {
		b := a.As16()
		a = netip.AddrFrom4([4]byte(b[12:]))
	}
	if a.Is4() {
		bits = a.BitLen()
	}
	return netip.PrefixFrom(a, bits).Masked()
}

// networkOf is what one client can't easily change: an IPv4 address, or the /64
// of an IPv6 one.
func networkOf(a netip.Addr) string { return prefixText(prefixOf(a, clientBits)) }

func prefixText(p netip.Prefix) string {
	if p.IsSingleIP() {
		return p.Addr().String()
	}
	return p.String()
}

// networksOf is a client's network and, for IPv6, the /48 around it: one that has a
// /48 has 65,536 networks.
func networksOf(a netip.Addr) []string {
	list := []string{networkOf(a)}
	if site := prefixOf(a, siteBits); !site.IsSingleIP() {
		list = append(list, prefixText(site))
	}
	return list
}

// byNetwork is the keys of a limit of the client's network, and of the wider one
// around it; none for a caller without an address, such as a command. before begins
// their subjects.
func byNetwork(ctx context.Context, l throttle.Limit, before string) []throttle.Key {
	address := identity.FromContext(ctx).Address
	if !address.IsValid() {
		return nil
	}
	var keys []throttle.Key
	for i, network := range networksOf(address) {
		if i > 0 {
			l = widened(l)
		}
		keys = append(keys, throttle.Key{Limit: l, Subject: before + network})
	}
	return keys
}

// widened is l as it holds for a /48.
func widened(l throttle.Limit) throttle.Limit {
	l.Name, l.Max = l.Name+".wide", wider*l.Max
	return l
}

// perAddress limits what anonymous clients do; a caller without an address, such
// as a command, is not limited.
func (s *core) perAddress(ctx context.Context, l throttle.Limit) error {
	keys := byNetwork(ctx, l, "")
	// First without a write, which whoever is over the limit must not cause again and again.
	if err := s.limits.Check(ctx, keys...); err != nil {
		return err
	}
	return s.limits.Count(ctx, keys...)
}

// payersOf are to whom the hash of a password is charged: the account with that
// address, whether there is one or not, and the client's networks. A command has no
// network, and the queue of its process to itself.
func payersOf(ctx context.Context, email string) []string {
	payers := []string{"account " + emailSubject(email)}
	if address := identity.FromContext(ctx).Address; address.IsValid() {
		for _, network := range networksOf(address) {
			payers = append(payers, "network "+network)
		}
	}
	return payers
}
