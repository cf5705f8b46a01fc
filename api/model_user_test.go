package api_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"
	"pgregory.net/rapid"

	"github.com/waypost/waypost/api"
	"github.com/waypost/waypost/internal/account"
	"github.com/waypost/waypost/internal/apidoc/model"
	"github.com/waypost/waypost/internal/content"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
)

// The rules stand twice: in the model's tags and in the service, which commands
// and jobs call as well.

func TestTheUserModelAndTheAccountsAcceptTheSame(t *testing.T) {
	t.Parallel()
	p := newPeople(t)
	name := rapid.OneOf(rapid.StringN(0, 3, -1), rapid.Just(strings.Repeat("é", account.MaxName)), rapid.Just(strings.Repeat("é", account.MaxName+1)))
	email := rapid.OneOf(
		rapid.StringMatching(`[a-zA-Z.+"\\-]{0,4}@?[a-z0-9.\-_\[\]]{0,6}(\.[a-z]{1,3})?`),
		rapid.StringMatching(`[a-z!#$%&'*+/=?^_{|}~]{1,5}(\.[A-Z0-9]{1,3})?@[a-z0-9]{1,5}(-[a-z]|\.[a-z]){0,2}`),
		rapid.StringMatching(`a{63,66}@(b{62}\.){2}b{60,63}`), rapid.StringMatching(`a@b{60,66}`),
	)
	role := rapid.SampledFrom([]string{"ADMIN", "EDITOR", "USER", "ROOT", "user"})
	rapid.Check(t, func(t *rapid.T) {
		n := account.NewUser{
			FirstName: name.Draw(t, "first"), LastName: name.Draw(t, "last"), Email: email.Draw(t, "email"),
			Role: identity.Role(role.Draw(t, "role")), Password: password,
		}
		if strings.TrimSpace(n.Email) != n.Email {
			return // the service trims, for people at a terminal
		}
		allowed := allows[api.User](t, map[string]any{"first_name": n.FirstName, "last_name": n.LastName, "email": n.Email, "role": n.Role})
		_, err := p.accounts.Create(p.ctx, n)
		if accepted := err == nil || errors.Is(err, account.ErrEmailTaken); accepted != allowed {
			t.Fatalf("%+v: the model allows it: %v; the service: %v", n, allowed, err)
		}
	})
}

func TestThePostModelAndThePostsAcceptTheSame(t *testing.T) {
	t.Parallel()
	p := newPeople(t)
	p.add(t, "ada@example.com", identity.User)
	around := func(most int) *rapid.Generator[string] {
		return rapid.OneOf(rapid.StringN(0, 2, -1), rapid.Just("nul\x00"), rapid.Just(strings.Repeat("é", most)), rapid.Just(strings.Repeat("é", most+1)))
	}
	tags := rapid.OneOf(rapid.SliceOfN(around(content.MaxTag), 0, 3), rapid.SliceOfN(rapid.Just("tag"), content.MaxTags-1, content.MaxTags+1))
	rapid.Check(t, func(t *rapid.T) {
		n := content.NewPost{AuthorID: 1, Title: around(content.MaxTitle).Draw(t, "title"), Body: around(content.MaxBody).Draw(t, "body"), Tags: tags.Draw(t, "tags")}
		allowed := allows[api.Post](t, map[string]any{"title": n.Title, "body": n.Body, "tags": n.Tags})
		_, err := p.posts.CreatePost(p.ctx, n)
		if (err == nil) != allowed || err != nil && fault.KindOf(err) != fault.Invalid {
			t.Fatalf("%+.80v: the model allows it: %v; the service: %v", n, allowed, err)
		}
	})
}

func allows[T any](t *rapid.T, fields map[string]any) bool {
	raw, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	var body model.Create[T]
	if err := json.Unmarshal(raw, &body); err != nil {
		t.Fatal(err)
	}
	return len(body.Resolve(nil, huma.NewPathBuffer(nil, 0))) == 0
}
