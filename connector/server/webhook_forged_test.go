package server

import (
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// covers F41
func TestBothSecretsAreAcceptedDuringARotation(t *testing.T) {
	t.Parallel()
	e := newEndpoint(t, bodyOnly())
	for i, secret := range []string{hookNew, hookOld} {
		body := fmt.Sprintf(`{"type":"customer","eventId":"e%d","customerId":"cus_1"}`, i)
		r := delivery(body)
		r.Header.Set("X-Signature", mac(secret, body))
		e.expect(200, r)
	}
	if rows := e.inbox(); len(rows) != 2 {
		t.Errorf("inbox has %d rows, want 2", len(rows))
	}
}

// The full numbers of goal G6 are -samples 50 and
// -mutations 1000000.
var (
	sampleCount   = flag.Int("samples", 3, "deliveries of which every bit is flipped")
	mutationCount = flag.Int("mutations", 10_000, "random changes of deliveries to try")
)

// sample returns the nth of a family of deliveries.
func sample(n int) string {
	types := []string{"dd-mandate.updated", "CUSTOMER_UPDATED", "payment", "Ünïcode \\u20ac"}
	return fmt.Sprintf(`{"type":%q,"eventId":"ev-%d","data":{"customerId":"cus_%d","amount":%d.50}}`, types[n%len(types)],
		n, n*7919, n)
}

// expectRefused checks that a delivery different from a signed one is refused for its signature.
func (e *endpoint) expectRefused(body, signature string) {
	e.t.Helper()
	r := delivery(body)
	r.Header["X-Signature"] = []string{signature}
	if w := e.serve(r); w.Code != http.StatusUnauthorized {
		e.t.Errorf("status %d for body %q with signature %q", w.Code, body, signature)
	}
}

// covers F34, G6
func TestEveryBitFlipAndTruncationIsRefused(t *testing.T) {
	t.Parallel()
	e := newEndpoint(t, bodyOnly(), func(c *Config) { c.Report = nil })
	for n := range *sampleCount {
		body := sample(n)
		good := mac(hookNew, body)
		for i := range len(body) {
			e.expectRefused(body[:i], good)
			for bit := range 8 {
				e.expectRefused(flipped(body, i, bit), good)
			}
		}
		for i := range len(good) {
			e.expectRefused(body, good[:i])
			for bit := range 8 {
				e.expectRefused(body, flipped(good, i, bit))
			}
		}
	}
	e.expectInbox()
}

// covers F34, G6
func TestMutatedDeliveriesAreRefused(t *testing.T) {
	t.Parallel()
	const seed = 34
	e := newEndpoint(t, bodyOnly(), func(c *Config) { c.Report = nil })
	random := rand.New(rand.NewPCG(seed, 0))
	for n := range *mutationCount {
		body := sample(n)
		good := mac(hookNew, body)
		if random.IntN(2) == 0 {
			e.expectRefused(mutated(random, body), good)
		} else {
			e.expectRefused(body, mutated(random, good))
		}
		if t.Failed() {
			t.Fatalf("mutation %d of seed %d", n, seed)
		}
	}
	e.expectInbox()
}

// mutated returns s with up to four changes, never s itself.
func mutated(random *rand.Rand, s string) string {
	b := []byte(s)
	for range 1 + random.IntN(4) {
		i := random.IntN(len(b) + 1)
		switch random.IntN(4) {
		case 0:
			b = slices.Insert(b, i, byte(random.UintN(256)))
		case 1:
			b = slices.Delete(b, i, min(i+1+random.IntN(8), len(b)))
		case 2:
			b = slices.Insert(b, i, b[i:min(i+random.IntN(16), len(b))]...)
		case 3:
			b[min(i, len(b)-1)] ^= 1 << random.UintN(8)
		}
		if len(b) == 0 {
			break
		}
	}
	if string(b) == s || strings.EqualFold(string(b), s) { // hex has two spellings
		return s + "x"
	}
	return string(b)
}

// keyOf returns the key of a delivery with this body.
func keyOf(name, body string) string {
	sum := sha256.Sum256([]byte(body))
	return name + hex.EncodeToString(sum[:keyBytes])
}

func flipped(s string, i, bit int) string {
	b := []byte(s)
	b[i] ^= 1 << bit
	return string(b)
}

// A sender is held to account for what was refused of it, and for nothing that
// others send from beside it.
//
// covers F40, F111
func TestOnlyWhatIsRefusedCountsAgainstItsSender(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEndpoint(t, bodyOnly(), func(c *Config) { c.Refused = 10 })
		defer shut(t, e.ledger)
		junk := map[string]func(*http.Request){
			"forged":       func(r *http.Request) { r.Header.Set("X-Signature", "forged") },
			"wrong method": func(r *http.Request) { r.Method = http.MethodGet },
			"a form":       func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") },
		}
		for name, spoil := range junk {
			statuses := map[int]int{}
			for i := range 200 {
				r := delivery(sampleBody)
				r.RemoteAddr = fmt.Sprintf("198.51.100.%d:4711", i)
				spoil(r)
				w := e.serve(r)
				if statuses[w.Code]++; w.Code == http.StatusTooManyRequests && w.Header().Get("Retry-After") != "1" {
					t.Errorf("Retry-After is %q, want 1", w.Header().Get("Retry-After"))
				}
			}
			if len(statuses) != 2 || statuses[http.StatusTooManyRequests] != 190 {
				t.Errorf("%s: answered %v, want 10 refusals and 190 × 429", name, statuses)
			}
			genuine := delivery(sampleBody)
			genuine.RemoteAddr = "198.51.100.7:4711"
			e.expect(200, genuine) // from the same block
			time.Sleep(2 * time.Second)
		}
		for range 1000 {
			e.expect(200, delivery(sampleBody)) // genuine ones are never too many
		}
	})
}

// All senders behind a proxy have its address, and the limit is the usual one. Time stands still until each
// has been answered, so all of it comes in the same moment.
//
// covers F40, F111
func TestGenuineDeliveriesAreNeverTooManyBesideJunkFromTheirOwnAddress(t *testing.T) {
	t.Parallel()
	const senders, each, junk = 64, 50, 3 * defaultRefused
	synctest.Test(t, func(t *testing.T) {
		e := newEndpoint(t, bodyOnly(), func(c *Config) {
			c.Refused, c.Nudge, c.Report = 0, nil, nil
			c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
		})
		defer shut(t, e.ledger)
		send := func(body string, edit func(*http.Request)) int {
			r := delivery(body)
			r.RemoteAddr = "127.0.0.1:4711"
			r.Header.Set("X-Forwarded-For", "203.0.113.7")
			edit(r)
			return e.serve(r).Code
		}
		var genuine, refused outcomes
		var all sync.WaitGroup
		for sender := range senders {
			all.Go(func() {
				for i := range each {
					body := fmt.Sprintf(`{"type":"customer","eventId":"ev-%d-%d","customerId":"cus_1"}`, sender, i)
					genuine[send(body, func(*http.Request) {})].Add(1)
				}
			})
		}
		all.Go(func() {
			for range junk {
				refused[send(sampleBody, func(r *http.Request) { r.Header.Set("X-Signature", "forged") })].Add(1)
			}
		})
		all.Wait()
		if n := genuine.of(http.StatusOK); n != senders*each || len(e.inbox()) != n {
			t.Errorf("the deliveries were answered %v, and the inbox has %d of them", &genuine, len(e.inbox()))
		}
		if refused.of(http.StatusUnauthorized) != defaultRefused ||
			refused.of(http.StatusTooManyRequests) != junk-defaultRefused {
			t.Errorf("the junk was answered %v, want %d refusals and 429 for the rest", &refused, defaultRefused)
		}
	})
}
