// Package country tells in which country an address is, from a database file in
// MaxMind's format (https://maxmind.github.io/MaxMind-DB/).
package country

import (
	"fmt"
	"net/netip"

	"github.com/oschwald/maxminddb-golang/v2"
)

// paths are where databases keep the code: MaxMind's and DB-IP's in the first,
// those of ip-location-db in the second.
var paths = [][]any{{"country", "iso_code"}, {"country_code"}}

// Database is an open file. A nil one knows no country.
type Database struct {
	reader *maxminddb.Reader
}

// Open maps a file into memory.
func Open(path string) (*Database, error) {
	r, err := maxminddb.Open(path)
	if err != nil {
		return nil, fmt.Errorf("country database %s: %w", path, err)
	}
	return &Database{r}, nil
}

// Lookup returns the ISO 3166-1 alpha-2 code of a's country in upper case, ""
// where the file has none. It may be called concurrently.
func (d *Database) Lookup(a netip.Addr) string {
	if d == nil || !a.IsValid() {
		return ""
	}
	found := d.reader.Lookup(a.Unmap().WithZone(""))
	for _, path := range paths {
		var code string
		// A file with another layout has no such path: that address has no country.
		if err := found.DecodePath(&code, path...); err == nil && isCode(code) {
			return code
		}
	}
	return ""
}

// Describe names the file's kind and age, for people.
func (d *Database) Describe() string {
	if d == nil {
		return "not configured"
	}
	m := d.reader.Metadata
	return fmt.Sprintf("%s of %s", m.DatabaseType, m.BuildTime().UTC().Format("2006-01-02"))
}

// Close lets go of the file, when no lookup is under way any more.
func (d *Database) Close() error {
	if d == nil {
		return nil
	}
	return d.reader.Close()
}

func isCode(s string) bool {
	return len(s) == 2 && s[0] >= 'A' && s[0] <= 'Z' && s[1] >= 'A' && s[1] <= 'Z'
}
