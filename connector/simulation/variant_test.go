package simulation

import (
	"cmp"
	"slices"
	"sync/atomic"
	"testing"
)

func TestEveryWeakerVariantIsCaught(t *testing.T) {
	if scale > 1 {
		t.Skip("the race detector adds nothing to what the oracle sees: run without it")
	}
	t.Parallel()
	tmpl := newTemplate(t, memoryDir(t))
	for _, v := range variants {
		caught, by := atomic.Int64{}, atomic.Pointer[string]{}
		each(t, cmp.Or(v.seeds, variantSeeds), func(t *testing.T, i int) bool {
			p := draw(uint64(i) + 1)
			if v.amends {
				p = p.amended()
			}
			p.variant = v
			if v.troubles != nil {
				p.troubles = nil
				p.drawTroubles(v.troubles)
			}
			o := play(t, p, tmpl, randomStory)
			if o.err != nil {
				t.Errorf("variant %q, seed %d: %v", v.name, p.seed, o.err)
				return false
			}
			at := slices.IndexFunc(o.bad, func(b violation) bool { return slices.Contains(v.breaks, b.invariant) })
			if at < 0 {
				return true
			}
			caught.CompareAndSwap(0, int64(i)+1)
			what := o.bad[at].String()
			by.CompareAndSwap(nil, &what)
			return false
		})
		if caught.Load() == 0 {
			t.Errorf("variant %q was not caught within %d seeds", v.name, cmp.Or(v.seeds, variantSeeds))
			continue
		}
		t.Logf("%-40s caught at seed %3d by %s", v.name, caught.Load(), *by.Load())
	}
}
