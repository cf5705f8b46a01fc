package account_test

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/waypost/waypost/internal/account"
	"github.com/waypost/waypost/internal/account/oauth/oauthtest"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/throttle"
)

// Beginning a sign-in stores something for whoever asks, so one network can't have more
// than so much of it stored. Others are not kept from it, and neither is it for long.
func TestBeginningSignInsIsLimitedForEachNetwork(t *testing.T) {
	t.Parallel()
	o := newOutside(t, nil)
	start := func(address string) error {
		ctx := identity.NewContext(t.Context(), identity.Principal{Kind: identity.KindAnonymous, Address: netip.MustParseAddr(address)})
		_, err := o.StartOAuth(ctx, "google", account.OAuthStart{})
		return err
	}
	const most = 600
	for n := range most {
		if err := start("192.0.2.1"); err != nil {
			t.Fatalf("number %d: %v", n+1, err)
		}
	}
	for range 3 {
		if err := start("192.0.2.1"); !errors.Is(err, throttle.ErrLimited) {
			t.Fatalf("one too many: %v, want ErrLimited", err)
		}
	}
	if n := o.count(t, `select count(*) from oauth_flows`); n != most {
		t.Errorf("%d flows are stored, want %d", n, most)
	}
	if err := start("192.0.2.2"); err != nil {
		t.Errorf("from another network: %v", err)
	}
	*o.now = o.now.Add(account.OAuthFlowTTL)
	if err := start("192.0.2.1"); err != nil {
		t.Errorf("after a while: %v", err)
	}
	if _, err := o.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := o.count(t, `select count(*) from oauth_flows`); n != 1 {
		t.Errorf("%d flows are left, want that of the last", n)
	}
}

// What is refused anyhow takes nothing from the network.
func TestARefusedStartIsNotCounted(t *testing.T) {
	t.Parallel()
	o := newOutside(t, nil)
	ctx := identity.NewContext(t.Context(), identity.Principal{Kind: identity.KindAnonymous, Address: netip.MustParseAddr("192.0.2.1")})
	for range 700 {
		if _, err := o.StartOAuth(ctx, "google", account.OAuthStart{ReturnURL: "https://evil.example"}); !errors.Is(err, account.ErrReturnURL) {
			t.Fatalf("%v, want ErrReturnURL", err)
		}
	}
	if n := o.count(t, `select count(*) from throttles`); n != 0 {
		t.Errorf("%d counts are stored", n)
	}
}

// RFC 8252, section 7.3: a desktop application listens on whatever port is free.
func TestADesktopApplicationMayReturnToAnyPortOfItsOwnMachine(t *testing.T) {
	t.Parallel()
	o := newOutside(t, func(options *account.Options) {
		options.OAuth.ReturnURLs = []string{
			"http://127.0.0.1/callback", "http://[::1]/callback?from=desktop", "http://localhost/callback", "http://127.0.0.1:3000/fixed",
			"http://192.0.2.1/callback", "https://127.0.0.1/secure", "http://[::1]",
		}
	})
	start := func(address string) error {
		_, err := o.StartOAuth(t.Context(), "google", account.OAuthStart{ReturnURL: address, CodeChallenge: oauthtest.Challenge(verifier)})
		return err
	}
	for _, good := range []string{
		"http://127.0.0.1/callback", "http://127.0.0.1:1/callback", "http://127.0.0.1:51004/callback", "http://127.0.0.1:65535/callback",
		"http://[::1]:51004/callback?from=desktop", "http://[::1]:51004", "http://127.0.0.1:3000/fixed", "http://localhost/callback",
	} {
		if err := start(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{
		"http://127.0.0.1:0/callback", "http://127.0.0.1:65536/callback", "http://127.0.0.1:/callback", "http://127.0.0.1:080/callback",
		"http://127.0.0.1:+80/callback", "http://127.0.0.1:80:80/callback", "http://127.0.0.1:80/callback/", "http://127.0.0.1:80/callback?x=1",
		"http://127.0.0.1:80/callback#x", "http://127.0.0.1:80@evil.example/callback", "http://127.0.0.1:80.evil.example/callback",
		"http://127.0.0.1:80\\@evil.example/callback", "http://user@127.0.0.1:80/callback", "http://127.0.0.2:80/callback", "http://127.1:80/callback",
		"HTTP://127.0.0.1:80/callback", "http://localhost:51004/callback", "http://127.0.0.1:3001/fixed", "http://192.0.2.1:80/callback",
		"https://127.0.0.1:8443/secure", "http://[::1]:80.evil.example", "http://[::1]:80@evil.example", "http://[0:0:0:0:0:0:0:1]:80",
	} {
		if err := start(bad); !errors.Is(err, account.ErrReturnURL) {
			t.Errorf("%q: %v, want ErrReturnURL", bad, err)
		}
	}
}

// The outcome goes to the port that was asked for.
func TestTheOutcomeGoesToThePortThatWasAskedFor(t *testing.T) {
	t.Parallel()
	o := newOutside(t, func(options *account.Options) { options.OAuth.ReturnURLs = []string{"http://127.0.0.1/callback"} })
	o.google.Person = ada
	const asked = "http://127.0.0.1:51004/callback"
	outcome, err := o.FinishOAuth(t.Context(), "google", o.answer(t, "google", account.OAuthStart{ReturnURL: asked, CodeChallenge: oauthtest.Challenge(verifier)}))
	if err != nil || len(outcome.ReturnURL) <= len(asked) || outcome.ReturnURL[:len(asked)+6] != asked+"?code=" {
		t.Errorf("returned to %q, %v", outcome.ReturnURL, err)
	}
}
