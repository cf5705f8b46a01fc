package country_test

import (
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/waypost/waypost/internal/stats/country"
	"github.com/waypost/waypost/internal/stats/country/mmdbtest"
)

func open(t testing.TB, content []byte) *country.Database {
	t.Helper()
	path := filepath.Join(t.TempDir(), "country.mmdb")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	d, err := country.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func TestEveryLayoutOfACountryDatabaseIsRead(t *testing.T) {
	t.Parallel()
	d := open(t, mmdbtest.File(map[netip.Prefix]any{
		netip.MustParsePrefix("192.0.2.0/25"):    map[string]any{"country_code": "PT"},
		netip.MustParsePrefix("192.0.2.128/25"):  map[string]any{"country": map[string]any{"iso_code": "NZ"}},
		netip.MustParsePrefix("198.51.100.0/24"): map[string]any{"country_code": "lower"},
		netip.MustParsePrefix("203.0.113.0/24"):  "a string",
		netip.MustParsePrefix("2001:db8::/32"):   map[string]any{"country_code": "BR"},
	}))
	for address, want := range map[string]string{
		"192.0.2.1": "PT", "::ffff:192.0.2.1": "PT", "192.0.2.200": "NZ", "198.51.100.1": "", "203.0.113.9": "",
		"2001:db8::1": "BR", "2001:db8::1%eth0": "BR", "10.0.0.1": "", "::1": "",
	} {
		if got := d.Lookup(netip.MustParseAddr(address)); got != want {
			t.Errorf("%s is in %q, want %q", address, got, want)
		}
	}
	if got := d.Lookup(netip.Addr{}); got != "" {
		t.Errorf("no address is in %q", got)
	}
	if got := d.Describe(); got != "Test-Country of 2023-11-14" {
		t.Errorf("described as %q", got)
	}
}

func TestWithoutADatabaseNoCountryIsKnown(t *testing.T) {
	t.Parallel()
	var none *country.Database
	if none.Lookup(netip.MustParseAddr("192.0.2.1")) != "" || none.Describe() != "not configured" || none.Close() != nil {
		t.Error("an absent database answers")
	}
	if _, err := country.Open(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("an absent file was opened")
	}
}

// A damaged file may know nothing, but must not crash.
func FuzzADamagedDatabaseIsNoDanger(f *testing.F) {
	f.Add(mmdbtest.File(map[netip.Prefix]any{netip.MustParsePrefix("192.0.2.0/24"): map[string]any{"country_code": "PT"}}), uint32(0xC0000201))
	f.Fuzz(func(t *testing.T, content []byte, address uint32) {
		path := filepath.Join(t.TempDir(), "country.mmdb")
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		d, err := country.Open(path)
		if err != nil {
			return
		}
		defer d.Close()
		a := netip.AddrFrom4([4]byte{byte(address >> 24), byte(address >> 16), byte(address >> 8), byte(address)})
		if got := d.Lookup(a); len(got) != 0 && len(got) != 2 {
			t.Errorf("%s is in %q", a, got)
		}
	})
}
