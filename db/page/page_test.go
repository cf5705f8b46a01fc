package page_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waypost/waypost/db/page"
	"github.com/waypost/waypost/db/where"
)

var columns = page.Columns{{Sort: "created_at", Name: "created_at", Time: true}, {Sort: "email", Name: "email_key"}}

func TestOnlyListedOrdersAreTaken(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"":            " order by u.created_at desc, u.id desc",
		"-created_at": " order by u.created_at desc, u.id desc",
		"created_at":  " order by u.created_at, u.id",
		"email":       " order by u.email_key, u.id",
		"-email":      " order by u.email_key desc, u.id desc",
	} {
		o, problem := columns.Order(name)
		if problem != "" || o.By("u") != want {
			t.Errorf("%s: %q, %q", name, o.By("u"), problem)
		}
	}
	for _, name := range []string{"email_key", "--email", "email desc", "created_at; drop table users", "-", "Email"} { // abuse case 51
		if _, problem := columns.Order(name); !strings.Contains(problem, "created_at, -created_at, email, -email") {
			t.Errorf("%s: %q", name, problem)
		}
	}
}

func TestAPositionIsOfItsOwnOrderAlone(t *testing.T) {
	t.Parallel()
	newest, _ := columns.Order("-created_at")
	email, _ := columns.Order("email")
	c := where.New()
	for _, problem := range []string{newest.After(c, "u", nil), newest.After(c, "u", newest.At("2026-01-02T15:04:05.000006Z", 7)), email.After(c, "u", email.At("ada", 8))} {
		if problem != "" {
			t.Error(problem)
		}
	}
	if diff := cmp.Diff(" where (u.created_at, u.id) < ($1, $2) and (u.email_key, u.id) > ($3, $4)", c.SQL()); diff != "" {
		t.Error(diff)
	}
	for _, wrong := range []*page.Position{
		{}, email.At("2026-01-02T15:04:05Z", 7), newest.At("yesterday", 7), newest.At("0000-01-01T00:00:00Z", 7), newest.At("", 7),
	} {
		if newest.After(c, "u", wrong) == "" {
			t.Errorf("%+v is taken", wrong)
		}
	}
	if email.After(c, "u", email.At("\x00", 7)) == "" {
		t.Error("text that can't be stored is taken")
	}
}
