package simulation

import (
	"cmp"
	"slices"
	"sync/atomic"
	"testing"

	"payersync/internal/longtest"
	"payersync/state/statetest"
)

// A variant is played with the seed that last caught it. If that seed no longer does, because seeds draw
// other worlds now, the test looks for another from 1 on, and reports it.
func TestEveryWeakerVariantIsCaught(t *testing.T) {
	if scale > 1 {
		t.Skip("the race detector adds nothing to what the oracle sees: run without it")
	}
	t.Parallel()
	tmpl := newTemplate(t, memoryDir(t))
	for _, v := range longtest.Sample(variants, 6) {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			if v.trigger != "" {
				statetest.OnlySQLite(t, "the trigger that makes it weaker is written in its language")
			}
			if by := v.caught(t, tmpl, v.seed); by != nil || t.Failed() {
				t.Logf("caught at seed %d by %s", v.seed, by)
				return
			}
			var seed atomic.Uint64
			each(t, cmp.Or(v.seeds, variantSeeds), func(t *testing.T, i int) bool {
				by := v.caught(t, tmpl, uint64(i)+1)
				if by != nil && seed.CompareAndSwap(0, uint64(i)+1) {
					t.Logf("caught at seed %d by %s: note that seed in variants", i+1, by)
				}
				return by == nil && !t.Failed()
			})
			if seed.Load() == 0 {
				t.Errorf("it was not caught within %d seeds", cmp.Or(v.seeds, variantSeeds))
			}
		})
	}
}

// caught plays the world of a seed with the variant in it, and returns what it is caught by;
// nil for nothing.
func (v variant) caught(t *testing.T, tmpl template, seed uint64) *violation {
	t.Helper()
	p := draw(seed).onFile()
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
		t.Errorf("seed %d: %v", p.seed, o.err)
		return nil
	}
	at := slices.IndexFunc(o.bad, func(b violation) bool { return slices.Contains(v.breaks, b.invariant) })
	if at < 0 {
		return nil
	}
	return &o.bad[at]
}
