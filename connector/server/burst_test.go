package server

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// A service back after an outage sends all deliveries at once, from one address, over any number of
// connections, while others, some in its own block, send junk. There is room for all of it, so no genuine
// delivery is refused, and junk takes neither memory nor disk.
//
// covers F40, F111
func TestABurstOfGenuineDeliveriesIsTakenInWholeBesideAFlood(t *testing.T) {
	const burst, connections, mostGrowth = 5000, 200, 64 << 20
	f := flood{junk: func(nth int) sender { return sender{local: fmt.Sprintf("127.0.%d.1", 7+nth%4)} },
		what: func() []request { return append(mixture(), bulk()...) }}
	genuine := sender{local: "127.0.7.9"} // of the block of the first flooder
	e := newEndpoint(t, bodyOnly(), func(c *Config) { c.Refused, c.Report, c.Nudge = 0, nil, nil })
	address := e.listen()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var junk, deliveries outcomes
	var flooders, senders sync.WaitGroup
	for nth := range floodSenders {
		flooders.Go(func() { f.sendJunk(ctx, t, address, nth, &junk) })
	}
	var next atomic.Int64
	for range connections {
		senders.Go(func() {
			l := genuine.line(t, address)
			defer func() { l.close() }()
			for i := next.Add(1); i <= burst; i = next.Add(1) {
				deliveries[l.send(signed(fmt.Sprintf(`{"type":"customer","eventId":"ev-%d","customerId":"cus_1"}`, i)), "")].Add(1)
			}
		})
	}
	senders.Wait()
	stop()
	flooders.Wait()
	runtime.GC()
	runtime.ReadMemStats(&after)
	t.Logf("genuine: %v; junk: %v; heap %d kB before, %d kB after", &deliveries, &junk, before.HeapAlloc>>10,
		after.HeapAlloc>>10)
	if n := deliveries.of(http.StatusOK); n != burst {
		t.Errorf("%d of %d deliveries were taken in: %v", n, burst, &deliveries)
	}
	if junk.total() == 0 || junk.of(http.StatusOK) > 0 {
		t.Errorf("the junk was answered %v", &junk)
	}
	if stored := len(e.inbox()); stored != burst {
		t.Errorf("the inbox holds %d, want the %d genuine ones and nothing else", stored, burst)
	}
	if after.HeapAlloc > before.HeapAlloc+mostGrowth {
		t.Errorf("the flood left %d MiB in memory", (after.HeapAlloc-before.HeapAlloc)>>20)
	}
}

func TestTheSizeOfADeliveryIsTheOperatorsToSay(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ most, size, want int }{
		{4096, 4096, 200}, {4096, 4097, 413}, {1 << 20, 1 << 20, 200}, {1 << 20, 1<<20 + 1, 413}, {0, maxBody, 200},
		{0, maxBody + 1, 413},
	} {
		for _, chunked := range []bool{false, true} {
			e := newEndpoint(t, bodyOnly(), func(c *Config) { c.MaxBody = tt.most })
			head := `{"type":"customer","customerId":"cus_1","pad":"`
			r := delivery(head + strings.Repeat("x", tt.size-len(head)-2) + `"}`)
			if chunked {
				r.ContentLength = -1
			}
			if w := e.serve(r); w.Code != tt.want {
				t.Errorf("of %d bytes at most, one with %d (chunked: %t) was answered %d, want %d", tt.most, tt.size, chunked,
					w.Code, tt.want)
			}
			if held := cap(e.large) * max(tt.most, maxBody); tt.most > maxBody && held > largeBytes {
				t.Errorf("bodies of %d bytes may take %d in all", tt.most, held)
			}
		}
	}
}
