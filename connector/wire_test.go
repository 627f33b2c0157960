package connector

import "testing"

func TestOnlyThisMachineIsLoopback(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]bool{
		"localhost": true, "LOCALHOST": true, "127.0.0.1": true, "127.8.8.8": true, "::1": true, "::ffff:127.0.0.1": true,
		"": false, "0.0.0.0": false, "localhost.example.com": false, "127.0.0.1.example.com": false, "10.0.0.1": false,
		"::": false,
	} {
		if got := IsLoopback(host); got != want {
			t.Errorf("IsLoopback(%q) = %t, want %t", host, got, want)
		}
	}
}

func TestAContentTypeIsJSONWhateverItsSuffix(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]bool{
		"application/json": true, "application/json; charset=utf-8": true, "Application/JSON": true, "text/json": true,
		"application/problem+json": true,
		"":                         false, "text/html": false, "text/html; json": false, "application/jsonp": false,
		"image/svg+json": false,
		"+json":          false,
	} {
		if got := IsJSON(kind); got != want {
			t.Errorf("IsJSON(%q) = %t, want %t", kind, got, want)
		}
	}
}
