package app

import "testing"

func TestABusyProcessCollectsItsGarbageSeldomAndACalmOneStaysSmall(t *testing.T) {
	t.Parallel()
	const live = 16 << 20
	p := garbagePacer{percent: usualPercent}
	allocated := uint64(0)
	second := func(bytes, live uint64) int {
		allocated += bytes
		p.next(allocated, live)
		return p.percent
	}
	for range 5 {
		if got := second(live, live); got != usualPercent {
			t.Fatalf("a process that allocates what is alive once a second has %d %%", got)
		}
	}
	if got := second(8*live, live); got != 800 {
		t.Fatalf("a busy process with 16 MiB alive has %d %%, not 128 MiB more", got)
	}
	if got := second(8*live, live*11/10); got != 800 {
		t.Fatalf("a small change of what is alive has changed the percentage to %d", got)
	}
	if got := second(64*live, 16*live); got != usualPercent {
		t.Fatalf("a large heap has %d %%, so that it would be collected more often than without", got)
	}
	second(8*live, live)
	for range calmSeconds - 1 {
		if got := second(live, live); got != 800 {
			t.Fatalf("a pause ended it at once: %d %%", got)
		}
	}
	if got := second(live, live); got != usualPercent {
		t.Fatalf("a calm process still has %d %%", got)
	}
}
