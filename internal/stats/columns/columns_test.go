package columns

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var schema = Schema{Sessions: []string{"source", "country"}, Events: []string{"event", "page"}}

// visitors draws some visitors' sessions; ids below 0 are of texts that are stored themselves.
func visitors(t *rapid.T, lowest int) [][]Session {
	id := rapid.SampledFrom([]int64{0, 0, 1, 2, 300, int64(lowest), int64(lowest) / 2})
	if rapid.Bool().Draw(t, "many labels") {
		id = rapid.Int64Range(int64(lowest), 70_000)
	}
	event := rapid.Custom(func(t *rapid.T) Event {
		return Event{
			Labels: rapid.SliceOfN(id, 2, 2).Draw(t, "labels"),
			Props:  rapid.SliceOfN(rapid.SampledFrom([]int64{5, 6, int64(lowest) | 1}), 0, 3).Draw(t, "props"),
		}
	})
	session := rapid.Custom(func(t *rapid.T) Session {
		s := Session{At: rapid.Int64Range(0, 1e11).Draw(t, "at"), Micros: rapid.Int64Range(0, 1e11).Draw(t, "micros"), Labels: rapid.SliceOfN(id, 2, 2).Draw(t, "labels")}
		s.Events = rapid.SliceOfN(event, 1, 4).Draw(t, "events")
		at := s.At
		for i := range s.Events {
			s.Events[i].At = at
			at += rapid.Int64Range(0, 1e9).Draw(t, "gap")
		}
		return s
	})
	return rapid.SliceOfN(rapid.SliceOfN(session, 1, 3), 1, 30).Draw(t, "visitors")
}

func TestABlockComesBackWhateverIsAskedOfIt(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b := NewBuilder(schema)
		for _, v := range visitors(t, -3) {
			b.AddVisitor(v)
		}
		texts := map[Text]int64{}
		parts := schema.Encode(b.Block(), func(id int64) Text {
			text := Text{Label: strings.Repeat("x", int(-id)), Value: "v"}
			texts[text] = id
			return text
		})
		w := Wanted{
			Labels: rapid.SliceOfN(rapid.Bool(), 4, 4).Draw(t, "labels wanted"),
			Micros: rapid.Bool().Draw(t, "micros"), Times: rapid.Bool().Draw(t, "times"), Props: rapid.Bool().Draw(t, "props"),
		}
		got := schema.NewBlock()
		for _, name := range schema.Parts(w, nil) {
			part, stored := parts[name]
			if !stored {
				continue
			}
			if err := schema.Decode(got, name, part, func(text Text) int64 { return texts[text] }); err != nil {
				t.Fatal(name, err)
			}
		}
		schema.Complete(got, w)
		want := b.Block()
		if !slices.Equal(want.New, got.New) || !slices.Equal(want.Views, got.Views) || !slices.Equal(want.Customs, got.Customs) || want.Events() != got.Events() {
			t.Fatalf("sessions %v, want %v", got, want)
		}
		if w.Micros && !slices.Equal(want.Micros, got.Micros) || w.Times && (!slices.Equal(want.Starts, got.Starts) || !slices.Equal(want.At, got.At)) {
			t.Fatalf("times %v, want %v", got, want)
		}
		for i, wanted := range w.Labels {
			if wanted && !slices.Equal(labelsOf(want.Labels[i]), labelsOf(got.Labels[i])) {
				t.Fatalf("%s: %v, want %v", schema.Name(i), got.Labels[i], want.Labels[i])
			}
		}
		if w.Props && len(want.Props.At) > 0 {
			if diff := cmp.Diff(want.Props, got.Props); diff != "" {
				t.Fatal(diff)
			}
		}
	})
}

func labelsOf(c Column) []int64 {
	out := make([]int64, len(c.Codes))
	for i, code := range c.Codes {
		out[i] = c.Dict[code]
	}
	return out
}

func TestAVisitorComesBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		read := NewVisitors(schema)
		for _, want := range visitors(t, 1) {
			got, err := read.Read(schema.AppendVisitor(nil, want))
			if err != nil {
				t.Fatal(err)
			}
			one, two := NewBuilder(schema), NewBuilder(schema)
			one.AddVisitor(want)
			two.AddVisitor(got)
			if diff := cmp.Diff(one.Block(), two.Block(), cmp.AllowUnexported(Block{})); diff != "" {
				t.Fatal(diff)
			}
		}
	})
}

func TestAVisitorOfAProgramWithFewerColumnsHasNoneOfTheOthers(t *testing.T) {
	t.Parallel()
	packed := schema.AppendVisitor(nil, []Session{{Labels: []int64{1, 2}, Events: []Event{{Labels: []int64{0, 4}}}}})
	more := Schema{Sessions: append(slices.Clone(schema.Sessions), "more"), Events: append(slices.Clone(schema.Events), "more")}
	got, err := NewVisitors(more).Read(packed)
	want := []Session{{Labels: []int64{1, 2, 0}, Events: []Event{{Labels: []int64{0, 4, 0}, Props: []int64{}}}}}
	if err != nil || cmp.Diff(want, got) != "" {
		t.Fatal(err, cmp.Diff(want, got))
	}
}

func TestEveryNumberComesBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var packed []byte
		want := rapid.SliceOf(rapid.Custom(func(t *rapid.T) uint64 {
			return rapid.Uint64Max(1<<62).Draw(t, "number") >> rapid.IntRange(0, 62).Draw(t, "shift")
		})).Draw(t, "numbers")
		for _, v := range want {
			packed = binary.AppendUvarint(packed, v)
		}
		r := reader{b: packed}
		for i, v := range want {
			if got := r.next(); got != v || r.failed {
				t.Fatalf("number %d is %d (%v), want %d", i, got, r.failed, v)
			}
		}
		if r.next(); !r.failed {
			t.Fatal("more was read than there is")
		}
	})
}

func FuzzDamagedPartsAreRefused(f *testing.F) {
	b := NewBuilder(schema)
	b.AddVisitor([]Session{{At: 5, Micros: 9, Labels: []int64{1, 0}, Events: []Event{{At: 5, Labels: []int64{0, 4}}, {At: 14, Labels: []int64{7, 4}, Props: []int64{1}}}}})
	for name, part := range schema.Encode(b.Block(), nil) {
		f.Add(name, part)
	}
	f.Fuzz(func(t *testing.T, name string, part []byte) {
		for _, name := range []string{name, partSessions, partTimes, partMicros, PartProps, "source", "page"} {
			got := schema.NewBlock()
			if schema.Decode(got, partSessions, part, nil) != nil || got.Events() > 1<<20 {
				continue
			}
			if name != partSessions && schema.Decode(got, name, part, func(Text) int64 { return -1 }) != nil {
				continue
			}
			for _, c := range got.Labels {
				labelsOf(c)
			}
		}
		_, _ = NewVisitors(schema).Read(part)
	})
}
