package e2e_test

import (
	"strings"
	"testing"

	"github.com/waypost/waypost/db/dbtest"
)

func TestOneMachineSaysSoAndWhatItLacksToBeDistributed(t *testing.T) {
	t.Parallel()
	urls := dbtest.NewURL(t)
	env := []string{"DATABASE_URL=" + urls.App, "WAYPOST_DATABASE_OWNER_URL=" + urls.Owner}
	for _, of := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"migrate", "status"}, 0, "Layout: one machine"},
		{[]string{"migrate", "distribute"}, 1, "CREATE EXTENSION citus"},
		{[]string{"migrate", "status"}, 0, "Layout: one machine"}, // nothing was changed
		{[]string{"doctor"}, -1, "one machine"},
	} {
		code, out, errOut := command(t, env, "", of.args...)
		if of.code >= 0 && code != of.code || !strings.Contains(out+errOut, of.says) {
			t.Errorf("%v exits with %d, not saying %q:\n%s%s", of.args, code, of.says, out, errOut)
		}
	}
}
