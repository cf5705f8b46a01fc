package account

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/waypost/waypost/internal/fault"
)

// ErrTokenNetwork says that an API token was sent from where it may not be used.
var ErrTokenNetwork = fault.New(fault.Forbidden, "network_not_allowed", "This API token may not be used from your network address.")

// parseNetworks reads addresses and networks in CIDR notation, and returns them without
// bits behind the prefix and without repetitions. problem is a sentence for clients, ""
// when nothing is wrong.
func parseNetworks(list []string) (networks []netip.Prefix, problem string) {
	if len(list) > MaxTokenNetworks {
		return nil, fmt.Sprintf("Has at most %d networks.", MaxTokenNetworks)
	}
	for _, s := range list {
		network, ok := parseNetwork(s)
		if !ok {
			return nil, "Must be addresses and networks such as 203.0.113.7, 198.51.100.0/24 and 2001:db8::/32."
		}
		if !slices.Contains(networks, network) {
			networks = append(networks, network)
		}
	}
	return networks, ""
}

func parseNetwork(s string) (netip.Prefix, bool) {
	network, err := netip.ParsePrefix(s)
	if err != nil {
		a, err := netip.ParseAddr(s)
		if err != nil || a.Zone() != "" {
			return netip.Prefix{}, false
		}
		network = netip.PrefixFrom(a, a.BitLen())
	}
	// An IPv4 address in IPv6's clothes (RFC 4291, section 2.5.5.2) is an IPv4 address.
	if a := network.Addr(); a.Is4In6() {
		if network.Bits() < 96 {
			return netip.Prefix{}, false
		}
		network = netip.PrefixFrom(a.Unmap(), network.Bits()-96)
	}
	return network.Masked(), true
}

// admitsFrom returns ErrTokenNetwork unless one of networks, as they are stored, has the
// client's address. None are all networks; and an address that is not known is in none.
func admitsFrom(networks []string, client netip.Addr) error {
	if len(networks) == 0 {
		return nil
	}
	client = client.Unmap().WithZone("")
	for _, s := range networks {
		if network, err := netip.ParsePrefix(s); err == nil && network.Contains(client) {
			return nil
		}
	}
	if !client.IsValid() {
		return ErrTokenNetwork
	}
	// The address is the client's own, and tells whoever set up proxies what they make of it.
	return fault.Newf(ErrTokenNetwork.Kind, ErrTokenNetwork.Code, "This API token may not be used from %s, which is your network address here.", client)
}
