package upstream

import (
	"errors"
	"fmt"
	"net/netip"
	"syscall"
)

// errPrivate says that a name led to an address that is no public one.
var errPrivate = errors.New("upstream: its address is not public; set allow_private for an upstream in your own network")

// special are ranges that are not public, beside those that netip knows (the IANA's
// special-purpose address registries). Those that hold an IPv4 address are here too,
// since it may be any.
var special = func() []netip.Prefix {
	var list []netip.Prefix
	for _, s := range []string{
		"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4",
		"::/96", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20", "5f00::/16", "fec0::/10",
	} {
		list = append(list, netip.MustParsePrefix(s))
	}
	return list
}()

// isPublic reports whether anybody on the internet may have a.
func isPublic(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	if !a.IsGlobalUnicast() || a.IsPrivate() {
		return false
	}
	for _, p := range special {
		if p.Contains(a) {
			return false
		}
	}
	return true
}

// refusePrivate is for net.Dialer.Control, which gets the address that is dialled, after
// every look-up and every redirect.
func refusePrivate(_, address string, _ syscall.RawConn) error {
	a, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("upstream: %w", err)
	}
	if !isPublic(a.Addr()) {
		return errPrivate
	}
	return nil
}
