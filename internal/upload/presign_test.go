package upload_test

import (
	"crypto/sha256"
	"errors"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waypost/waypost/internal/blob"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/upload"
)

// announce begins a file of the first account, and returns the ticket of its address.
func (f *fixture) announce(content string) (upload.Upload, string) {
	f.t.Helper()
	sum := sha256.Sum256([]byte(content))
	p, err := f.Presign(f.as(0), upload.Announced{Filename: "notes.txt", ContentType: "text/plain", Size: int64(len(content)), SHA256: sum[:]})
	if err != nil {
		f.t.Fatal(err)
	}
	u, err := url.Parse(p.Request.URL)
	if err != nil {
		f.t.Fatal(err)
	}
	return p.Upload, u.Query().Get("ticket")
}

func (f *fixture) put(id int64, ticket, content string) error {
	return f.PutStaged(f.t.Context(), id, ticket, "text/plain", int64(len(content)), strings.NewReader(content))
}

func TestAFileSentToASignedAddressIsReadyOnceItIsComplete(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	u, ticket := f.announce("Notes")
	if u.Status != upload.Pending || f.used() != 5 {
		t.Errorf("%+v, %d bytes are counted", u, f.used())
	}
	if _, err := f.Complete(f.as(0), u.ID); !errors.Is(err, upload.ErrIncomplete) {
		t.Errorf("before anything was sent: %v", err)
	}
	if err := f.put(u.ID, ticket, "Notes"); err != nil {
		t.Fatal(err)
	}
	if _, err := f.read(f.Service, u.ID); !errors.Is(err, upload.ErrNoUpload) {
		t.Errorf("before it is complete: %v", err)
	}
	for range 2 { // the second time, it is answered as it is
		got, err := f.Complete(f.as(0), u.ID)
		if err != nil || got.Status != upload.Ready || got.Size != 5 || got.ContentType != "text/plain" {
			t.Errorf("%+v, %v", got, err)
		}
	}
	// The address is spent, and changes nothing.
	if err := f.put(u.ID, ticket, "Votes"); !errors.Is(err, upload.ErrLink) {
		t.Error(err)
	}
	if read, err := f.read(f.Service, u.ID); read != "Notes" {
		t.Error(read, err)
	}
	f.wantClean(1)
}

func TestBytesThatComeByASignedAddressAfterCompletionChangeNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	u, ticket := f.announce("Notes")
	if err := f.put(u.ID, ticket, "Notes"); err != nil {
		t.Fatal(err)
	}
	// A bucket's own address, which asks nobody: the same key again, in the middle and
	// after the end.
	var staged string
	if err := f.db.Direct().QueryRow(t.Context(), `select staging_key from uploads`).Scan(&staged); err != nil {
		t.Fatal(err)
	}
	again := func() {
		if _, err := f.store.Put(t.Context(), staged, "text/plain", strings.NewReader("Votes")); err != nil {
			t.Error(err)
		}
	}
	f.at(upload.Moved, again)
	if _, err := f.Complete(f.as(0), u.ID); err != nil {
		t.Fatal(err)
	}
	again()
	if got, err := f.Complete(f.as(0), u.ID); err != nil || got.Status != upload.Ready {
		t.Error(got, err)
	}
	if read, err := f.read(f.Service, u.ID); read != "Notes" {
		t.Errorf("%q, %v", read, err)
	}
	f.sweepLater()
	f.wantClean(1)
}

func TestCase45WhatDiffersFromWhatWasAnnouncedIsRefusedAndCanBeSentAgain(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const page = "<!DOCTYPE html><script>alert(1)</script>"
	for name, tc := range map[string]struct{ announced, sent string }{
		"other bytes": {"Notes", "Votes"}, "fewer bytes": {"Notes", "Note"}, "more bytes": {"Notes", "Notes!"}, "a page": {page, page},
	} {
		u, ticket := f.announce(tc.announced)
		var staged string
		if err := f.db.Direct().QueryRow(t.Context(), `select staging_key from uploads where id = $1`, u.ID).Scan(&staged); err != nil {
			t.Fatal(err)
		}
		if len(tc.sent) != len(tc.announced) {
			if err := f.put(u.ID, ticket, tc.sent); !errors.Is(err, upload.ErrMismatch) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if _, err := f.store.Put(t.Context(), staged, "text/plain", strings.NewReader(tc.sent)); err != nil {
			t.Fatal(err)
		}
		if _, err := f.Complete(f.as(0), u.ID); !errors.Is(err, upload.ErrMismatch) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := f.read(f.Service, u.ID); !errors.Is(err, upload.ErrNoUpload) {
			t.Errorf("%s is served: %v", name, err)
		}
		if tc.announced == page {
			continue
		}
		if err := f.put(u.ID, ticket, tc.announced); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := f.Complete(f.as(0), u.ID); err != nil {
			t.Errorf("%s, sent again: %v", name, err)
		}
	}
	f.sweepLater()
	f.wantClean(3)
}

func TestFilesThatAreCompletedByManyAtOnceAreCompletedOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	u, ticket := f.announce("Notes")
	if err := f.put(u.ID, ticket, "Notes"); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if got, err := f.Complete(f.as(0), u.ID); err != nil || got.Status != upload.Ready {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
	all.Wait()
	f.wantClean(1)
}

func TestACrashWhileAFileIsCompletedLosesNothing(t *testing.T) {
	t.Parallel()
	for _, boundary := range []upload.Boundary{upload.Claimed, upload.Moved, upload.Finished} {
		t.Run(string(boundary), func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			u, ticket := f.announce("Notes")
			if err := f.put(u.ID, ticket, "Notes"); err != nil {
				t.Fatal(err)
			}
			f.at(boundary, nil)
			if _, err := f.Complete(f.as(0), u.ID); !errors.Is(err, errCrash) {
				t.Fatal(err)
			}
			f.at("", nil)
			if _, err := f.Sweep(t.Context()); err != nil {
				t.Error(err)
			}
			f.clock.advance(11 * time.Minute) // the claim of the dead ends
			if got, err := f.Complete(f.as(0), u.ID); err != nil || got.Status != upload.Ready {
				t.Errorf("%+v, %v", got, err)
			}
			if read, err := f.read(f.Service, u.ID); read != "Notes" {
				t.Errorf("%q, %v", read, err)
			}
			f.sweepLater()
			f.wantClean(1)
		})
	}
}

func TestAnnouncedFilesThatNeverComeAreSwept(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.announce("Notes")
	u, ticket := f.announce("Votes")
	if err := f.put(u.ID, ticket, "Votes"); err != nil {
		t.Fatal(err)
	}
	if n, err := f.Sweep(t.Context()); n != 0 || err != nil {
		t.Error(n, err)
	}
	f.sweepLater()
	f.wantClean(0)
	if err := f.put(u.ID, ticket, "Votes"); !errors.Is(err, upload.ErrLink) {
		t.Error(err)
	}
}

func TestAnnouncementsAreRefusedLikeFiles(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for name, tc := range map[string]struct {
		a    upload.Announced
		want error
	}{
		"too large":     {upload.Announced{Filename: "a", ContentType: "text/plain", Size: f.o.Limit + 1}, upload.ErrTooLarge},
		"a page":        {upload.Announced{Filename: "a", ContentType: "text/html", Size: 1}, upload.ErrType},
		"a drawing":     {upload.Announced{Filename: "a", ContentType: "image/svg+xml", Size: 1}, upload.ErrType},
		"no type":       {upload.Announced{Filename: "a", ContentType: "nonsense", Size: 1}, upload.ErrType},
		"a path":        {upload.Announced{Filename: "../a", ContentType: "text/plain", Size: 1}, fault.Validation(nil)},
		"half a digest": {upload.Announced{Filename: "a", ContentType: "text/plain", Size: 1, SHA256: []byte("x")}, fault.Validation(nil)},
	} {
		if _, err := f.Presign(f.as(0), tc.a); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for range 4 {
		if _, err := f.Presign(f.as(0), upload.Announced{Filename: "a", ContentType: "text/plain", Size: f.o.Limit}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := f.Presign(f.as(0), upload.Announced{Filename: "a", ContentType: "text/plain", Size: 1}); !errors.Is(err, upload.ErrQuota) {
		t.Error(err)
	}
}

// linkOf makes a link of the first account and returns what stands in its address.
func (f *fixture) linkOf(id, seconds int64) string {
	f.t.Helper()
	l, err := f.MakeLink(f.as(0), id, seconds)
	if err != nil {
		f.t.Fatal(err)
	}
	u, err := url.Parse(l.URL)
	if err != nil {
		f.t.Fatal(err)
	}
	return u.Query().Get("link")
}

func TestALinkIsGoodForOneFileUntilItExpiresOrTheFileIsDeleted(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	u, other := f.mustSend("Notes"), f.mustSend("Votes")
	link := f.linkOf(u.ID, 60)
	_, ticket := f.announce("Other")
	open := func(s *upload.Service, id int64, link string) error {
		c, err := s.Open(t.Context(), id, link)
		if err == nil {
			_ = c.Close()
		}
		return err
	}
	if err := open(f.Service, u.ID, link); err != nil {
		t.Error(err)
	}
	half, letter := len(link)/2, "_"
	if link[half] == '_' {
		letter = "A"
	}
	for name, forged := range map[string]string{
		"cut": link[:len(link)-1], "without its signature": link[:strings.LastIndex(link, ".")+1], "nonsense": "x", "dots": "..", "longer": link + "A",
		"another expiry": "9" + link, "a letter changed": link[:half] + letter + link[half+1:], "an address to write": ticket,
	} {
		if err := open(f.Service, u.ID, forged); !errors.Is(err, upload.ErrLink) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, id := range map[string]int64{"another file": other.ID, "no file": 999_999} {
		if err := open(f.Service, id, link); !errors.Is(err, upload.ErrLink) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := f.put(u.ID, link, "Votes"); !errors.Is(err, upload.ErrLink) {
		t.Errorf("writing with a link: %v", err)
	}
	rotated := f.another(func(o *upload.Options) {
		o.SecretKey, o.PreviousSecretKey = []byte("another secret key, longer than 32 bytes"), []byte(secretKey)
	})
	if err := open(rotated, u.ID, link); err != nil {
		t.Errorf("after the secret key was changed: %v", err)
	}
	dropped := f.another(func(o *upload.Options) { o.SecretKey = []byte("another secret key, longer than 32 bytes") })
	if err := open(dropped, u.ID, link); !errors.Is(err, upload.ErrLink) {
		t.Errorf("after the former one was dropped: %v", err)
	}
	if n := f.value(`select count(*) from audit_pending where op = 'note'`); n != 1 {
		t.Errorf("%d notes of links in the audit log", n)
	}
	spent := f.linkOf(u.ID, 1)
	f.clock.advance(2 * time.Second)
	if err := open(f.Service, u.ID, spent); !errors.Is(err, upload.ErrLink) {
		t.Errorf("spent: %v", err)
	}
	if err := f.Delete(f.as(0), u.ID); err != nil {
		t.Fatal(err)
	}
	if err := open(f.Service, u.ID, link); !errors.Is(err, upload.ErrNoUpload) {
		t.Errorf("deleted: %v", err)
	}
	for _, seconds := range []int64{-1, 0, 86_401} {
		if _, err := f.MakeLink(f.as(0), other.ID, seconds); !errors.Is(err, fault.Validation(nil)) {
			t.Errorf("%d seconds: %v", seconds, err)
		}
	}
}

func TestALinkToAnotherStoragesFileIsUnavailable(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	u := f.mustSend("Notes")
	link := f.linkOf(u.ID, 60)
	s := f.another(func(o *upload.Options) { o.Store, o.Stores = blob.None{}, map[string]blob.Store{} })
	if _, err := s.Open(t.Context(), u.ID, link); !errors.Is(err, blob.ErrUnavailable) {
		t.Error(err)
	}
}
