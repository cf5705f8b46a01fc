package webhook_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/webhook"
)

func asAdmin(ctx context.Context, id int64) context.Context {
	return identity.NewContext(ctx, identity.Account(id, identity.Admin, ""))
}

func TestTheListFiltersNewestFirst(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	start := time.Now().Truncate(time.Second)
	clock := start
	r := f.receiver(t, setup{
		change:   func(o *webhook.Options) { o.Now = func() time.Time { return clock } },
		bindings: []webhook.Binding{webhook.Handle("payment", "refused", failing)},
	})
	for i, d := range []struct{ provider, eventType, id string }{
		{"payment", "paid", "a"}, {"payment", "refused", "b"}, {"codehost", "push", "a"}, {"codehost", "paid", "d"}, {"payment", "paid", "e"},
	} {
		clock = start.Add(time.Duration(i) * time.Second)
		mustReceive(t, r, signed(t, d.provider, d.eventType, d.id, `{}`))
	}
	for name, c := range map[string]struct {
		filter webhook.Filter
		want   string
	}{
		"all":        {webhook.Filter{}, "e d a b a"},
		"provider":   {webhook.Filter{Provider: "codehost"}, "d a"},
		"status":     {webhook.Filter{Status: webhook.Failed}, "b"},
		"skipped":    {webhook.Filter{Status: webhook.Skipped}, ""},
		"type":       {webhook.Filter{EventType: "paid"}, "e d a"},
		"id":         {webhook.Filter{ExternalID: "a"}, "a a"},
		"from":       {webhook.Filter{From: start.Add(3 * time.Second)}, "e d"},
		"to":         {webhook.Filter{To: start.Add(3 * time.Second)}, "a b a"},
		"all of it":  {webhook.Filter{Provider: "payment", Status: webhook.Processed, EventType: "paid", ExternalID: "a", From: start, To: start.Add(time.Second)}, "a"},
		"injection":  {webhook.Filter{Provider: "' or true --"}, ""},
		"percentage": {webhook.Filter{ExternalID: "%"}, ""},
	} {
		list, err := r.List(t.Context(), c.filter, nil, 100)
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, rec := range list {
			ids = append(ids, rec.ExternalID)
		}
		if got := strings.Join(ids, " "); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		if n, err := r.Count(t.Context(), c.filter); err != nil || int(n) != len(list) {
			t.Errorf("%s: counted %d, %v", name, n, err)
		}
	}
	for _, bad := range []webhook.Filter{{Provider: "\x00"}, {EventType: "\xff"}, {ExternalID: "a\x00"}, {Status: "\x00"}} {
		_, err := r.List(t.Context(), bad, nil, 10)
		_, countErr := r.Count(t.Context(), bad)
		if fault.KindOf(err) != fault.Invalid || fault.KindOf(countErr) != fault.Invalid {
			t.Errorf("%+v: %v, %v", bad, err, countErr)
		}
	}
}

func TestPagesAreStableWhileDeliveriesArrive(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	now := time.Now().Truncate(time.Second) // one instant for all: the id decides
	r := f.receiver(t, setup{change: func(o *webhook.Options) { o.Now = func() time.Time { return now } }})
	var want []string
	for i := range 25 {
		mustReceive(t, r, signed(t, "payment", "paid", eventID(i), `{}`))
		want = append([]string{eventID(i)}, want...)
	}
	var got []string
	var after *webhook.Position
	for page := 0; ; page++ {
		list, err := r.List(t.Context(), webhook.Filter{}, after, 10)
		if err != nil {
			t.Fatal(err)
		}
		for _, rec := range list {
			got = append(got, rec.ExternalID)
			after = &webhook.Position{CreatedAt: rec.CreatedAt, ID: rec.ID}
		}
		if len(list) < 10 {
			break
		}
		mustReceive(t, r, signed(t, "payment", "paid", fmt.Sprint("new", page), `{}`))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestARepeatedBodyUnderAnotherIDIsAcceptedAndFlagged(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var calls int
	r := f.receiver(t, setup{bindings: []webhook.Binding{webhook.Handle("codehost", "", func(context.Context, *webhook.Delivery) error { calls++; return nil })}})
	first := mustReceive(t, r, signed(t, "codehost", "push", "d1", `{"ref":"main"}`))
	for i, c := range []struct {
		in   webhook.Inbound
		flag bool
	}{
		{signed(t, "codehost", "push", "d2", `{"ref":"main"}`), true},
		{signed(t, "codehost", "push", "d3", `{"ref":"main"}`), true},
		{signed(t, "codehost", "push", "d4", `{"ref": "main"}`), false},
		{signed(t, "payment", "push", "p1", `{"id":"p1","type":"push"}`), false},
		{signed(t, "codehost", "push", "d5", `{"id":"p1","type":"push"}`), false},
	} {
		got := mustReceive(t, r, c.in)
		of := mustFind(t, r, got.ID).RepeatedBodyOf
		if got.Status != webhook.Processed || (of != nil) != c.flag || of != nil && *of != first.ID {
			t.Errorf("delivery %d: %s, repeats %v", i, got.Status, of)
		}
	}
	if of := mustFind(t, r, first.ID).RepeatedBodyOf; of != nil || calls != 5 {
		t.Errorf("the first repeats %v; %d calls", of, calls)
	}
}

func TestALargeBodyStaysOutOfTheList(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	r := f.receiver(t, setup{})
	for size, inline := range map[int]bool{webhook.MaxInlineBody - 1: true, webhook.MaxInlineBody: false} {
		body := `"` + strings.Repeat("x", size-2) + `"`
		rec := mustFind(t, r, mustReceive(t, r, signed(t, "codehost", "push", fmt.Sprint(size), body)).ID)
		if (rec.Body != nil) != inline || rec.BodySize != size {
			t.Errorf("%d bytes: inline %v, size %d", size, rec.Body != nil, rec.BodySize)
		}
	}
}
