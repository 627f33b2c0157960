package server

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"payersync/state"
)

func FuzzWebhook(f *testing.F) {
	e := newEndpoint(f, stamped())
	stamp := strconv.FormatInt(noon.Unix(), 10)
	for _, body := range []string{sampleBody, "", "null", `{"customerId":7}`, `{"type":["x"]}`, "\xff", `{"a":` +
		strings.Repeat("[", 99)} {
		f.Add([]byte(body), mac(hookNew, stamp+"."+body), stamp, "application/json", "")
		f.Add([]byte(body), "forged", stamp, "application/json", "")
	}
	f.Add([]byte(sampleBody), mac(hookOld, "0."+sampleBody), "0", "text/json", "gzip")
	f.Fuzz(func(t *testing.T, body []byte, signature, at, contentType, encoding string) {
		before := stored(t, e.ledger)
		r := httptest.NewRequestWithContext(context.Background(), http.MethodPost, hookPath, bytes.NewReader(body))
		r.Header["X-Signature"], r.Header["X-Timestamp"] = []string{signature}, []string{at}
		r.Header["Content-Type"], r.Header["Content-Encoding"] = []string{contentType}, []string{encoding}
		w := e.serve(r)
		if w.Code >= 500 || w.Body.Len() > 0 {
			t.Errorf("status %d with %d bytes", w.Code, w.Body.Len())
		}
		signed := slices.ContainsFunc([]string{hookNew, hookOld}, func(secret string) bool {
			return strings.EqualFold(strings.TrimSpace(signature), mac(secret, at+"."+string(body)))
		})
		if added := stored(t, e.ledger) - before; !signed && (added > 0 || w.Code == http.StatusOK) {
			t.Errorf("status %d and %d new rows for a delivery nobody signed", w.Code, added)
		}
	})
}

// stored counts the inbox.
func stored(t *testing.T, l *state.Ledger) (n int) {
	t.Helper()
	funnel, err := l.Funnel(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, count := range funnel.Inbox {
		n += count
	}
	return n
}

// BenchmarkWebhookAccept takes in distinct deliveries from 16 senders per
// processor, which is what lets commits share an fsync.
func BenchmarkWebhookAccept(b *testing.B) {
	e := newEndpoint(b, bodyOnly(), func(c *Config) { c.Report = nil })
	handler := e.Handler()
	var n, refused int64
	var mu sync.Mutex
	b.SetParallelism(16)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			mu.Lock()
			n++
			body := fmt.Sprintf(`{"type":"dd-mandate.updated","eventId":"ev-%d","customerId":"cus_1"}`, n)
			mu.Unlock()
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, delivery(body))
			if w.Code != http.StatusOK {
				mu.Lock()
				refused++
				mu.Unlock()
			}
		}
	})
	if refused > 0 {
		b.Errorf("%d deliveries were refused", refused)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "deliveries/s")
}
