package e2e_test

import (
	"strings"
	"testing"

	"github.com/waypost/waypost/db/dbtest"
)

func TestServeWarnsOfADatabaseUserWhoOwnsTheTables(t *testing.T) {
	t.Parallel()
	urls := dbtest.NewURL(t)
	for url, want := range map[string]bool{urls.App: false, urls.Owner: true} {
		p := startServe(t, url)
		if said := strings.Contains(p.stderr.String(), "owns the tables"); said != want {
			t.Errorf("warned: %v, want %v", said, want)
		}
		p.stop(t)
	}
}
