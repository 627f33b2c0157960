package connector

import (
	"fmt"
	"runtime"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestIDsAreASet(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		ids, want := NewIDs(), map[string]bool{}
		for _, id := range rapid.SliceOf(rapid.StringN(0, 3, -1)).Draw(t, "ids") {
			if added := ids.Add(id); added == want[id] {
				t.Fatalf("%q was added: %v", id, added)
			}
			want[id] = true
		}
		if ids.Len() != len(want) {
			t.Fatalf("%d ids, want %d", ids.Len(), len(want))
		}
		if id := rapid.StringN(0, 3, -1).Draw(t, "id"); ids.Has(id) != want[id] {
			t.Fatalf("%q is there: %v", id, ids.Has(id))
		}
	})
}

func TestVeryManyIDsAreKeptApart(t *testing.T) {
	t.Parallel()
	const many = 50_000
	ids := NewIDs()
	for i := range many {
		if !ids.Add(fmt.Sprint(i)) || ids.Add(fmt.Sprint(i)) || ids.Len() != i+1 {
			t.Fatalf("%d was not added once", i)
		}
	}
	for i := range many {
		if !ids.Has(fmt.Sprint(i)) || ids.Has(fmt.Sprint("x", i)) {
			t.Fatalf("%d is not there, or x%d is", i, i)
		}
	}
}

// BenchmarkIDs shows what a million ids take.
func BenchmarkIDs(b *testing.B) {
	const million = 1_000_000
	var before, after runtime.MemStats
	for b.Loop() {
		runtime.GC()
		runtime.ReadMemStats(&before)
		ids := NewIDs()
		for i := range million {
			ids.Add(fmt.Sprintf("0191d6a0-7c1e-7b3a-9c55-%012d", i))
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/million, "bytes/id")
		if ids.Len() != million {
			b.Fatal(ids.Len())
		}
	}
}

func TestASmallSetGivesItsIDs(t *testing.T) {
	t.Parallel()
	ids := NewIDs()
	var want []string
	for i := range 256 {
		id := fmt.Sprint("id ", i)
		ids.Add(id)
		ids.Add(id)
		want = append(want, id)
	}
	if got, small := ids.Few(); !small || !slices.Equal(got, want) {
		t.Errorf("%d ids, small %v", len(got), small)
	}
	ids.Add("one more")
	if _, small := ids.Few(); small {
		t.Error("257 ids are few")
	}
}
