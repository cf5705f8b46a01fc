package upload_test

import (
	"errors"
	"testing"

	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/upload"
)

func TestOnlyWhoMaySeeEverybodysFilesListsThem(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.mustSend("hello")
	if _, err := f.sendAs(1, upload.File{Filename: "b.txt", ContentType: "text/plain", Expected: 2}, "hi"); err != nil {
		t.Fatal(err)
	}
	admin := identity.Account(f.owners[0], identity.Admin, "")
	token := identity.Token(f.owners[0], identity.Admin, 1, identity.NewScopes(identity.Read))
	for name, c := range map[string]struct {
		who  identity.Principal
		want error
	}{
		"a USER": {identity.Account(f.owners[0], identity.User, ""), upload.ErrNotAdmin}, "nobody": {identity.Principal{}, upload.ErrNotAdmin},
		"an ADMIN's token without admin": {token, upload.ErrTokenScope}, "an ADMIN": {admin, nil},
	} {
		ctx := identity.NewContext(t.Context(), c.who)
		list, _, err := f.List(ctx, upload.Filter{Everyones: true, Limit: 10})
		_, ownersErr := f.Owners(ctx, nil, 10)
		_, ofErr := f.OwnersOf(ctx, f.owners[1])
		_, usageErr := f.Usage(ctx)
		for _, err := range []error{err, ownersErr, ofErr, usageErr} {
			if !errors.Is(err, c.want) {
				t.Errorf("%s: %v, want %v", name, err, c.want)
			}
		}
		if (len(list) == 2) != (c.want == nil) {
			t.Errorf("%s: %d files", name, len(list))
		}
	}
	ctx := identity.NewContext(t.Context(), admin)
	first, err := f.Owners(ctx, nil, 1)
	if err != nil || len(first) != 1 || first[0].ID != f.owners[0] || first[0].Bytes != 5 || first[0].Files != 1 {
		t.Fatalf("%+v %v", first, err)
	}
	second, err := f.Owners(ctx, &first[0].Owner, 10)
	if err != nil || len(second) != 1 || second[0].ID != f.owners[1] || second[0].Bytes != 2 {
		t.Errorf("%+v %v", second, err)
	}
	if usage, err := f.Usage(ctx); err != nil || usage != (upload.Usage{Owners: 2, Bytes: 7, Quota: 4 << 20}) {
		t.Errorf("%+v %v", usage, err)
	}
}
