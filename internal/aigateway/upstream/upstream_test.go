package upstream

import (
	"net/netip"
	"testing"
	"time"
)

func TestOnlyPublicAddressesAreDialled(t *testing.T) {
	t.Parallel()
	for address, public := range map[string]bool{
		"8.8.8.8": true, "1.1.1.1": true, "2606:4700::1111": true, "172.32.0.1": true, "100.128.0.1": true,
		"127.0.0.1": false, "10.1.2.3": false, "172.16.0.1": false, "192.168.1.1": false, "169.254.169.254": false, "100.64.0.1": false, "0.0.0.0": false,
		"224.0.0.1": false, "255.255.255.255": false, "192.0.2.1": false, "198.18.0.1": false, "240.0.0.1": false,
		"::1": false, "::": false, "fe80::1": false, "fc00::1": false, "fd12::1": false, "ff02::1": false, "::ffff:127.0.0.1": false, "::ffff:8.8.8.8": true,
		"64:ff9b::7f00:1": false, "2002:7f00:1::": false, "2001:db8::1": false, "::127.0.0.1": false,
	} {
		if got := isPublic(netip.MustParseAddr(address)); got != public {
			t.Errorf("%s: %t", address, got)
		}
		if err := refusePrivate("tcp", netip.AddrPortFrom(netip.MustParseAddr(address), 443).String(), nil); (err == nil) != public {
			t.Errorf("%s: %v", address, err)
		}
	}
}

func TestABreakerOpensAfterFiveFailuresInARowAndTriesOnce(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	b := &Breaker{Now: func() time.Time { return now }}
	end := func(r Result) {
		t.Helper()
		done, ok := b.Allow()
		if !ok {
			t.Fatal("refused")
		}
		done(r)
		done(Failed) // only the first counts
	}
	for _, r := range []Result{Failed, Failed, Failed, Failed, Succeeded, Failed, Failed, Neutral, Failed, Failed} {
		end(r)
	}
	if b.State() != Closed {
		t.Fatal("open after four")
	}
	end(Failed)
	if _, ok := b.Allow(); ok || b.State() != Open {
		t.Fatal("not open after five")
	}
	now = now.Add(openFor)
	trial, ok := b.Allow()
	if _, second := b.Allow(); !ok || second || b.State() != HalfOpen {
		t.Fatal("not one trial")
	}
	trial(Neutral) // the client went: somebody else tries
	end(Failed)
	if _, ok := b.Allow(); ok {
		t.Fatal("open again after a failed trial")
	}
	now = now.Add(openFor)
	end(Succeeded)
	if b.State() != Closed {
		t.Fatal("not closed after a trial that succeeded")
	}
}
