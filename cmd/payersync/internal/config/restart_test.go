package config

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestWhatAProcessKeepsForItsLifeIsKeptAndNamed(t *testing.T) {
	t.Parallel()
	running := load(t, minimal)
	for key, yaml := range map[string]string{
		"ledger.path": "ledger: {path: /data/other.db}", "ledger.key_file": "ledger: {key_file: /data/other.key}",
		"server.webhooks": `server: {webhooks: "127.0.0.1:8099"}`, "server.health": `server: {health: "127.0.0.1:8099"}`,
		"server.admin": `server: {admin: "127.0.0.1:8099"}`, "server.metrics": `server: {metrics: "127.0.0.1:8099"}`,
		"server.trusted_proxies":     "server: {trusted_proxies: []}",
		"server.limits.connections":  "server: {limits: {connections: 17}}",
		"server.limits.read_timeout": "server: {limits: {read_timeout: 2s}}",
	} {
		changed := load(t, minimal+yaml+"\n")
		if got := changed.KeepUntilRestart(running); !slices.Equal(got, []string{key}) {
			t.Errorf("of %s it names %q, want %s", yaml, got, key)
		}
		if !reflect.DeepEqual(changed, running) {
			t.Errorf("%s is not kept as it was", key)
		}
	}
	for _, yaml := range []string{"server: {limits: {max_body: 8192, refused_per_client: 3}}", "log: {level: debug}",
		`schedules: {sweep: "1 * * * *"}`, "guards: {max_creates: 1}", `http: {proxy: "http://127.0.0.1:3128"}`} {
		changed := load(t, minimal+yaml+"\n")
		if got := changed.KeepUntilRestart(running); len(got) > 0 || reflect.DeepEqual(changed, running) {
			t.Errorf("of %s, which takes effect at once, it names %q, or it is not kept", yaml, got)
		}
	}
}

func TestAnUnfitTimeToArriveIsRefused(t *testing.T) {
	t.Parallel()
	for _, d := range []string{"1ms", "31s", "1h"} {
		_, err := Parse("payersync.yaml", []byte(minimal+"server: {limits: {read_timeout: "+d+"}}\n"), 0, environment)
		if err == nil || !strings.Contains(err.Error(), "server.limits.read_timeout is ") {
			t.Errorf("of %s it says %v", d, err)
		}
	}
}

func TestAnUnfitTimeForAnAnswerIsRefused(t *testing.T) {
	t.Parallel()
	with := func(d string) error {
		text := strings.Replace(minimal, "billing:", "billing:\n  request_timeout: "+d, 1)
		_, err := Parse("payersync.yaml", []byte(text), 0, environment)
		return err
	}
	for _, d := range []string{"10ms", "999ms", "6m"} {
		if err := with(d); err == nil || !strings.Contains(err.Error(), "billing.request_timeout is ") {
			t.Errorf("of %s it says %v", d, err)
		}
	}
	for _, d := range []string{"1s", "10s", "5m"} {
		if err := with(d); err != nil {
			t.Errorf("%s is refused: %v", d, err)
		}
	}
}
