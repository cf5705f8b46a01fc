package telemetry

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func unpacked(t interface{ Fatal(...any) }, b []byte) []RouteCounts {
	var list []RouteCounts
	err := unpack(b, func(p *packedRoute) {
		c := RouteCounts{Method: string(p.method), Route: string(p.route), Classes: p.classes}
		for _, b := range p.filled {
			c.Durations[b.index] = b.count
		}
		list = append(list, c)
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestWhatIsPackedIsUnpacked(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) RouteCounts {
			c := RouteCounts{Method: rapid.SampledFrom(methods).Draw(t, "method"), Route: rapid.StringN(0, 40, 200).Draw(t, "route")}
			for range rapid.IntRange(0, 20).Draw(t, "filled") {
				c.Durations[rapid.IntRange(0, bucketCount-1).Draw(t, "bucket")] = rapid.Uint64Range(0, 1<<40).Draw(t, "count")
			}
			for i := range c.Classes {
				c.Classes[i] = rapid.Uint64Range(0, 1<<40).Draw(t, "class")
			}
			return c
		}), 0, 5).Draw(t, "counts")
		if diff := cmp.Diff(append([]RouteCounts(nil), list...), unpacked(t, pack(list))); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestCountsOfAnotherVersionAreToldFromDamagedOnes(t *testing.T) {
	t.Parallel()
	good := pack([]RouteCounts{{Method: "GET", Route: "/a", Classes: [6]uint64{2: 1}, Durations: Histogram{7: 1}}})
	for name, c := range map[string]struct {
		stored []byte
		want   error
	}{
		"of a newer version": {[]byte{packedVersion + 1, 9, 9}, errOtherVersion},
		"empty":              {nil, errPacked},
		"cut":                {good[:len(good)-1], errPacked},
		"longer":             {append(append([]byte{}, good...), 0), errPacked},
		"a bucket too far":   {[]byte{1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 200, 1, 1}, errPacked},
	} {
		if err := unpack(c.stored, func(*packedRoute) {}); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzUnpackReadsAnyBytes(f *testing.F) {
	f.Add(pack([]RouteCounts{{Method: "GET", Route: "/a/{id}", Classes: [6]uint64{2: 3}, Durations: Histogram{0: 1, bucketCount - 1: 2}}}))
	f.Add([]byte{packedVersion, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		n := 0
		_ = unpack(b, func(*packedRoute) { n++ })
		if n > len(b) {
			t.Errorf("%d routes of %d bytes", n, len(b))
		}
	})
}
