package upload_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waypost/waypost/internal/blob"
	"github.com/waypost/waypost/internal/fairqueue"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/upload"
)

func TestAFileIsStoredWithItsFactsAndReadAgain(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const content = "Notes on the engine."
	got, err := f.sendAs(0, upload.File{Filename: `C:\notes\Notés.txt`, ContentType: "text/markdown; charset=utf-8", Expected: -1}, content)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte(content))
	want := upload.Upload{
		ID: got.ID, OwnerID: f.owners[0], Filename: "Notés.txt", ContentType: "text/markdown", Size: int64(len(content)), SHA256: sum[:], Status: upload.Ready,
		CreatedAt: got.CreatedAt, UpdatedAt: got.UpdatedAt,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	found, err := f.Find(f.as(0), got.ID)
	if diff := cmp.Diff(want, found); err != nil || diff != "" {
		t.Error(err, diff)
	}
	if read, err := f.read(f.Service, got.ID); err != nil || read != content {
		t.Errorf("%q, %v", read, err)
	}
	f.wantClean(1)
}

func TestCase43TheByteAfterTheLimitIsRefusedWhateverWasAnnounced(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	whole := strings.Repeat("x", int(f.o.Limit))
	for _, announced := range []int64{-1, 0, 10, f.o.Limit, f.o.Limit + 1} {
		r := &counting{r: io.MultiReader(strings.NewReader(whole), strings.NewReader("xxxxxxxxxxxxxxxx"))}
		if _, err := f.Create(f.as(0), upload.File{Expected: announced}, r); !errors.Is(err, upload.ErrTooLarge) {
			t.Errorf("announced %d: %v", announced, err)
		}
		if r.n > f.o.Limit+1 {
			t.Errorf("announced %d: %d bytes were read", announced, r.n)
		}
		f.wantClean(0)
	}
	if _, err := f.send(whole); err != nil {
		t.Errorf("a file of the limit: %v", err)
	}
	f.wantClean(1)
}

type counting struct {
	r io.Reader
	n int64
}

func (c *counting) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

func TestTwentyUploadsAtOnceNeverPassTheQuotaTogether(t *testing.T) {
	t.Parallel()
	const size = 300 << 10
	for _, announced := range []int64{size, 0, -1} { // told, lied, and not told
		f := newFixture(t)
		content := strings.Repeat("x", size)
		var mu sync.Mutex
		var all sync.WaitGroup
		stored := 0
		for range 20 {
			all.Go(func() {
				_, err := f.sendAs(0, upload.File{Expected: announced}, content)
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil:
					stored++
				case !errors.Is(err, upload.ErrQuota):
					t.Error(err)
				}
			})
		}
		all.Wait()
		if most := int(f.o.Quota / size); stored > most || stored == 0 || announced == size && stored != most {
			t.Errorf("announced %d: %d files of %d bytes were stored within %d", announced, stored, size, f.o.Quota)
		}
		if used := f.used(); used != int64(stored*size) {
			t.Errorf("announced %d: %d bytes are counted", announced, used)
		}
		f.wantClean(stored)
	}
}

func TestADeletionFreesTheQuotaAtOnceAndTheBytesByAJob(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	u := f.mustSend("Notes")
	if f.used() != 5 {
		t.Errorf("%d bytes are counted", f.used())
	}
	if err := f.Delete(f.as(1), u.ID); !errors.Is(err, upload.ErrNoUpload) {
		t.Errorf("somebody else deletes it: %v", err)
	}
	if err := f.Delete(f.as(0), u.ID); err != nil || f.used() != 0 {
		t.Errorf("%d bytes are counted, %v", f.used(), err)
	}
	if _, err := f.read(f.Service, u.ID); !errors.Is(err, upload.ErrNoUpload) {
		t.Errorf("a deleted file: %v", err)
	}
	if n := f.value(`select count(*) from river_job where kind = 'upload_removal'`); n != 1 || len(f.keys()) != 1 {
		t.Errorf("%d jobs, bytes %v", n, f.keys())
	}
	if err := f.Remove(t.Context(), upload.RemovalJob{Backend: "local", Keys: f.keys()}); err != nil {
		t.Error(err)
	}
	f.wantClean(0)
}

func TestABrokenOffSenderLeavesNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	gone := errors.New("the client is gone")
	for _, after := range []int{0, 10, 5000, 200_000} {
		r := io.MultiReader(strings.NewReader(strings.Repeat("x", after)), iotest.ErrReader(gone))
		if _, err := f.Create(f.as(0), upload.File{Expected: 300_000}, r); !errors.Is(err, gone) {
			t.Errorf("after %d bytes: %v", after, err)
		}
		f.wantClean(0)
	}
}

func TestWhatACrashLeavesIsNeverServedAndIsSwept(t *testing.T) {
	t.Parallel()
	for boundary, kept := range map[upload.Boundary]int{upload.Begun: 0, upload.Stored: 0, upload.Finished: 1} {
		t.Run(string(boundary), func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.at(boundary, nil)
			if _, err := f.send("Notes"); !errors.Is(err, errCrash) {
				t.Fatal(err)
			}
			f.at("", nil)
			id := f.value(`select id from uploads`)
			read, err := f.read(f.Service, id)
			if kept == 0 && !errors.Is(err, upload.ErrNoUpload) || kept == 1 && read != "Notes" {
				t.Errorf("%q, %v", read, err)
			}
			if n, err := f.Sweep(t.Context()); n != 0 || err != nil {
				t.Errorf("what is on its way was swept: %d, %v", n, err)
			}
			f.sweepLater()
			f.wantClean(kept)
		})
	}
}

func TestARowThatTheDatabaseLostMakesNoOtherOneReady(t *testing.T) {
	t.Parallel()
	for name, others := range map[string]bool{"gone": false, "another of its id": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.at(upload.Stored, func() {
				f.exec(`update upload_usage set bytes = 0`)
				if others {
					f.exec(`update uploads set key = 'u/00/00', held = 5`)
				} else {
					f.exec(`delete from uploads`)
				}
			})
			if _, err := f.send("Notes"); !errors.Is(err, upload.ErrLost) {
				t.Error(err)
			}
			if n := f.value(`select count(*) from uploads where status = 'ready'`); n != 0 || len(f.keys()) != 0 {
				t.Errorf("%d are ready, bytes %v", n, f.keys())
			}
		})
	}
}

func TestBytesWithoutARowAreSweptAfterADay(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	u := f.mustSend("Notes")
	if _, err := f.Sweep(t.Context()); err != nil { // says whose files these are
		t.Fatal(err)
	}
	f.at(upload.Stored, nil)
	if _, err := f.send("Orphan"); !errors.Is(err, errCrash) {
		t.Fatal(err)
	}
	f.exec(`delete from uploads where status = 'pending'`)
	if n, err := f.Sweep(t.Context()); n != 0 || err != nil || len(f.keys()) != 2 {
		t.Errorf("young ones: %d, %v", n, err)
	}
	f.exec(`update upload_usage set bytes = 5`)
	f.sweepLater()
	f.wantClean(1)
	if read, err := f.read(f.Service, u.ID); read != "Notes" {
		t.Error(err)
	}
}

func TestASweepSparesTheFilesOfOtherInstallationsAndOfTheDatabaseThatThisOneIsACopyOf(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.mustSend("Notes")
	if _, err := f.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	theirs := "w00000000000000000000000000000000/u/aa/aaaa"
	if _, err := f.store.Put(t.Context(), theirs, "text/plain", strings.NewReader("theirs")); err != nil {
		t.Fatal(err)
	}
	f.sweepLater()
	if keys := f.keys(); len(keys) != 2 {
		t.Errorf("left: %v", keys)
	}
	// The same installation, and another database without the row.
	var marker string
	for info := range f.store.List(t.Context(), "") {
		if strings.HasSuffix(info.Key, "/owner") {
			marker = info.Key
		}
	}
	if _, err := f.store.Put(t.Context(), marker, "text/plain", strings.NewReader("another database")); err != nil {
		t.Fatal(err)
	}
	f.exec(`delete from uploads`)
	f.sweepLater()
	if keys := f.keys(); len(keys) != 2 {
		t.Errorf("left: %v", keys)
	}
	if err := f.store.Delete(t.Context(), marker); err != nil { // as the log says
		t.Fatal(err)
	}
	f.sweepLater()
	if keys := f.keys(); len(keys) != 1 || keys[0] != theirs {
		t.Errorf("left: %v", keys)
	}
}

func TestFilesInAStorageThatIsNotConfiguredAreUnavailable(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	u := f.mustSend("Notes")
	s := f.another(func(o *upload.Options) { o.Store, o.Stores = blob.None{Reason: "none"}, map[string]blob.Store{} })
	if _, err := f.read(s, u.ID); !errors.Is(err, blob.ErrUnavailable) {
		t.Error(err)
	}
	if _, err := s.Create(f.as(0), upload.File{Expected: 5}, strings.NewReader("Notes")); !errors.Is(err, blob.ErrUnavailable) {
		t.Error(err)
	}
	if err := s.Remove(t.Context(), upload.RemovalJob{Backend: "local", Keys: f.keys()}); err != nil {
		t.Error(err)
	}
	f.clock.advance(100 * time.Hour)
	if _, err := s.Sweep(t.Context()); err != nil {
		t.Error(err)
	}
	f.wantClean(1)
	// New files go elsewhere, and those that are there stay readable.
	s = f.another(func(o *upload.Options) {
		o.Store, o.Stores = blob.None{Reason: "none"}, map[string]blob.Store{"local": f.store}
	})
	if read, err := f.read(s, u.ID); read != "Notes" {
		t.Error(err)
	}
}

func TestMissingBytesAreAnError(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	u := f.mustSend("Notes")
	key := f.keys()[0]
	if _, err := f.store.Put(t.Context(), key, "text/plain", strings.NewReader("Not")); err != nil {
		t.Fatal(err)
	}
	if read, err := f.read(f.Service, u.ID); err == nil {
		t.Errorf("a cut file: %q", read)
	}
	if err := f.store.Delete(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	if read, err := f.read(f.Service, u.ID); !errors.Is(err, blob.ErrNotFound) {
		t.Errorf("%q, %v", read, err)
	}
}

func TestCase35OthersFilesAreNotThereForAnybodyButAnAdmin(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	u := f.mustSend("Notes")
	for name, tc := range map[string]struct {
		p    identity.Principal
		want error
	}{
		"another USER":                  {identity.Account(f.owners[1], identity.User, ""), upload.ErrNoUpload},
		"an EDITOR":                     {identity.Account(f.owners[1], identity.Editor, ""), upload.ErrNoUpload},
		"an ADMIN":                      {identity.Account(f.owners[1], identity.Admin, ""), nil},
		"an ADMIN's token":              {identity.Token(f.owners[1], identity.Admin, 1, identity.NewScopes(identity.Read, identity.Write)), upload.ErrTokenScope},
		"an ADMIN's token, scope admin": {identity.Token(f.owners[1], identity.Admin, 1, identity.NewScopes(identity.Read, identity.Administer)), nil},
		"a USER's token, scope admin":   {identity.Token(f.owners[1], identity.User, 1, identity.NewScopes(identity.Read, identity.Administer)), upload.ErrNoUpload},
		"the owner's token":             {identity.Token(f.owners[0], identity.User, 1, identity.NewScopes(identity.Read)), nil},
	} {
		ctx := identity.NewContext(t.Context(), tc.p.Doing("test"))
		if _, err := f.Find(ctx, u.ID); !errors.Is(err, tc.want) {
			t.Errorf("%s finds it: %v", name, err)
		}
		c, err := f.Open(ctx, u.ID, "")
		if !errors.Is(err, tc.want) {
			t.Errorf("%s reads it: %v", name, err)
		}
		if err == nil {
			_ = c.Close()
		}
		if tc.want == nil {
			continue
		}
		for what, err := range map[string]error{
			"deletes it": f.Delete(ctx, u.ID), "links it": second(f.MakeLink(ctx, u.ID, 60)), "renames it": second(f.Update(ctx, u.ID, upload.Change{Filename: new("x")})),
			"completes it": second(f.Complete(ctx, u.ID)), "looks at its thumbnail": second(f.OpenThumbnail(ctx, u.ID)),
		} {
			if !errors.Is(err, tc.want) {
				t.Errorf("%s %s: %v", name, what, err)
			}
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestSlowSendersOfOneAccountLeavePlacesForOthers(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(o *upload.Options) { o.Places, o.PlacesEach = 3, 2 })
	begun, hang := make(chan struct{}, 2), make(chan struct{})
	var hanging sync.WaitGroup
	for range 2 {
		hanging.Go(func() {
			_, err := f.Create(f.as(0), upload.File{Expected: 5}, io.MultiReader(&waiting{begun, hang}, strings.NewReader("Notes")))
			if err != nil {
				t.Error(err)
			}
		})
		<-begun
	}
	if _, err := f.send("Notes"); !errors.Is(err, fairqueue.ErrBusy) {
		t.Errorf("a third of the account: %v", err)
	}
	if _, err := f.sendAs(1, upload.File{Expected: 5}, "Notes"); err != nil {
		t.Errorf("another account's: %v", err)
	}
	close(hang)
	hanging.Wait()
	if _, err := f.send("Notes"); err != nil {
		t.Errorf("after them: %v", err)
	}
}

// waiting is a sender who begins and then sends nothing for a while.
type waiting struct{ begun, until chan struct{} }

func (w *waiting) Read([]byte) (int, error) {
	w.begun <- struct{}{}
	<-w.until
	return 0, io.EOF
}

func TestAStorageThatFailsLeavesNothing(t *testing.T) {
	t.Parallel()
	for _, boundary := range []blob.Boundary{blob.Created, blob.Written, blob.Synced, blob.Renamed} {
		t.Run(string(boundary), func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			failing, err := blob.NewLocal(blob.LocalOptions{Dir: t.TempDir(), Interrupt: func(b blob.Boundary) error {
				if b == boundary {
					return errors.New("the disk is broken")
				}
				return nil
			}})
			if err != nil {
				t.Fatal(err)
			}
			s := f.another(func(o *upload.Options) { o.Store, o.Stores = failing, nil })
			if _, err := s.Create(f.as(0), upload.File{Expected: 5}, bytes.NewReader([]byte("Notes"))); !errors.Is(err, blob.ErrUnavailable) {
				t.Error(err)
			}
			f.wantClean(0)
		})
	}
}
