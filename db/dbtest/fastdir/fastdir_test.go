package fastdir

import (
	"os"
	"slices"
	"testing"
)

func TestTMPDIRDecides(t *testing.T) {
	t.Setenv("TMPDIR", "/a place of their own")
	if got := Path(); got != "/a place of their own" {
		t.Errorf("Path() = %s", got)
	}
}

func TestThePlaceIsAmongThoseThatAreSearchedForWhatWasLeft(t *testing.T) {
	t.Setenv("TMPDIR", "")
	without := Path()
	t.Setenv("TMPDIR", t.TempDir())
	if got := Candidates(); !slices.Contains(got, without) || !slices.Contains(got, Path()) {
		t.Errorf("%v are searched; the place is %s, or %s without TMPDIR", got, Path(), without)
	}
}

func TestAPlaceTooSmallOrNotOursHoldsNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if !holds(dir, 1) || holds(dir, 1<<62) || holds(dir+"/none", 1) {
		t.Error("the size of a place is not seen")
	}
	if os.Geteuid() == 0 {
		return // who may write everywhere
	}
	if err := os.Chmod(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	if holds(dir, 1) {
		t.Error("a place that cannot be written to is taken")
	}
}
