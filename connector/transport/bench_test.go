package transport_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"payersync/connector/transport"
)

// BenchmarkPostAgainstBareClient sends the same POST through the transport and through a bare http.Client, in
// turns. It reports the transport's rate as a share of the bare one's (the median over the turns). The goal
// is 0.85.
func BenchmarkPostAgainstBareClient(b *testing.B) {
	b.Run("serial", func(b *testing.B) { benchmarkShare(b, 1) })
	b.Run("8 workers", func(b *testing.B) { benchmarkShare(b, 8) })
}

func benchmarkShare(b *testing.B, workers int) {
	body := bytes.Repeat([]byte(`{"name":"Northwind"}`), 25)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = w.Write(body)
	}))
	defer server.Close()
	wire := http.DefaultTransport.(*http.Transport).Clone()
	wire.MaxIdleConnsPerHost = workers // the default of 2 would open a connection for most requests
	bare := &http.Client{Transport: wire}
	defer bare.CloseIdleConnections()
	client := transport.New(transport.Options{MaxInFlight: 2 * workers})
	defer client.Close()
	ours := func(req *http.Request) (*http.Response, error) { return client.Do(req, transport.IfNoEffect) }

	var shares []float64
	for b.Loop() {
		direct := timePosts(b, workers, server.URL, body, bare.Do)
		through := timePosts(b, workers, server.URL, body, ours)
		shares = append(shares, float64(direct)/float64(through))
	}
	slices.Sort(shares)
	b.ReportMetric(shares[len(shares)/2], "share")
}

// timePosts returns how long a batch of POSTs takes with so many workers.
func timePosts(b *testing.B, workers int, url string, body []byte,
	send func(*http.Request) (*http.Response, error)) time.Duration {
	const batch = 400
	start := time.Now()
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for range batch / workers {
				post(b, url, body, send)
			}
		})
	}
	group.Wait()
	return time.Since(start)
}

func post(b *testing.B, url string, body []byte, send func(*http.Request) (*http.Response, error)) {
	req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		b.Error(err)
		return
	}
	resp, err := send(req)
	if err != nil {
		b.Error(err)
		return
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
}
