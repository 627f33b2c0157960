package main

import (
	"bytes"
	"flag"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"payersync/cmd/payersync/internal/config"
	"payersync/state"
)

var (
	restAccounts = flag.Int("rest-accounts", 10, "how many accounts BenchmarkManyAccountsAtRest serves on one node")
	restFor      = flag.Duration("rest-for", 10*time.Second, "for how long it counts statements while nothing happens")
	restProgram  = flag.String("rest-program", "payersync", "the program of that node, to compare versions")
)

// BenchmarkManyAccountsAtRest measures a node with many small, quiet accounts: its memory, the database's
// transactions a minute, and the time of the first webhook of a closed account.
//
//	go test ./cmd/payersync -run '^$' -bench ManyAccountsAtRest -benchtime 1x -rest-accounts 5000 -rest-for 1m
func BenchmarkManyAccountsAtRest(b *testing.B) {
	for b.Loop() {
		c := newCluster(b, 1, map[string]int{"acme": 2})
		c.configure("acme", "0 4 * * *")
		c.apply()
		c.expect(exitDone, "sync", "--account", "acme")
		tokens := c.copies(*restAccounts - 1)
		c.settleAll()
		began := time.Now()
		p := c.serveOf(*restProgram, 0)
		b.ReportMetric(time.Since(began).Seconds(), "s-to-start")
		time.Sleep(max(3*time.Second, *restFor/6)) // what the start asks is not the rest
		before := c.transactions()
		time.Sleep(*restFor)
		b.ReportMetric(float64(c.transactions()-before)/restFor.Minutes(), "transactions/min")
		b.ReportMetric(p.resident(), "MB-resident")
		acks, reflected := c.firstWebhooks(tokens)
		b.ReportMetric(float64(acks.Milliseconds()), "ms-first-webhook-acknowledged")
		b.ReportMetric(float64(reflected.Milliseconds()), "ms-first-webhook-reflected")
		b.ReportMetric(p.resident(), "MB-after-webhooks")
		p.stop()
	}
}

// copies makes accounts like acme, and returns the paths of webhooks by their names.
func (c *cluster) copies(n int) map[string]string {
	c.t.Helper()
	server := c.server()
	docs, err := server.Documents(c.t.Context(), "acme")
	c.any().must(err)
	one, tokens := docs.Files[config.AccountFile], map[string]string{}
	for i := range n {
		name := fmt.Sprintf("copy%05d", i)
		docs.Files[config.AccountFile] = bytes.ReplaceAll(one, []byte("/acme/customers.csv"),
			[]byte("/"+name+"/customers.csv"))
		made, err := server.Apply(c.t.Context(),
			state.AccountChange{Name: name, Files: docs.Files, By: state.Entry{Actor: "test"}})
		c.any().must(err)
		token, err := server.HookToken(c.t.Context(), made)
		c.any().must(err)
		tokens[name] = hooksPath + token
	}
	return tokens
}

// settleAll stores the schedules of all accounts, none due soon, and spreads their checks over the hour.
func (c *cluster) settleAll() {
	c.t.Helper()
	p := c.serveOf("payersync", 0) // which makes the tables of the queue
	p.stop()
	c.exec(`INSERT INTO river.schedules (account, job, cron, on_time, care, next_at)
		SELECT a.account_id, j.job, j.cron, false, j.job <> 'sync acme', now() + interval '6 hours' + random() * interval '6 hours'
		FROM main.accounts a, (VALUES ('sweep', '0 3 * * *'), ('keep-alive', '0 5 * * *'), ('retention', '0 2 * * *'), ('duplicates', '30 3 * * *'), ('sync acme', '0 4 * * *')) j (job, cron)
		ON CONFLICT (account, job) DO UPDATE SET next_at = excluded.next_at`)
	c.exec("DELETE FROM river.river_job")
	c.exec(`UPDATE main.accounts SET settled = version, looked_at = to_char(clock_timestamp(), 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
		look_at = to_char(clock_timestamp() + random() * interval '1 hour', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`)
	c.exec("VACUUM ANALYZE")
}

// transactions returns how many the database has had.
func (c *cluster) transactions() int {
	c.t.Helper()
	c.exec("SELECT pg_stat_clear_snapshot()")
	n, err := strconv.Atoi(c.asked("acme",
		"SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()"))
	c.any().must(err)
	return n
}

// resident returns the memory of a process in MB.
func (p *process) resident() float64 {
	p.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		p.t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "VmRSS:" {
			kB, _ := strconv.ParseFloat(fields[1], 64)
			return kB / 1024
		}
	}
	return 0
}

// firstWebhooks delivers a webhook to each of some accounts, and returns the medians of how long it took to be acknowledged and
// reflected.
func (c *cluster) firstWebhooks(tokens map[string]string) (acknowledged, reflected time.Duration) {
	c.t.Helper()
	var acks, all []time.Duration
	for name, path := range tokens {
		if len(acks) == 20 {
			break
		}
		began := time.Now()
		if got := c.deliver(0, path, c.any().delivery(event("evt-"+name, "nobody"))); got != http.StatusOK {
			c.t.Errorf("a webhook of %s was answered %d", name, got)
		}
		acks = append(acks, time.Since(began))
		eventually(c.t, "the webhook of "+name, func() bool {
			return c.asked(name, "SELECT count(*) FROM main.inbox WHERE processed_at IS NULL AND attempts = 0") == "0"
		})
		all = append(all, time.Since(began))
	}
	slices.Sort(acks)
	slices.Sort(all)
	return acks[len(acks)/2], all[len(all)/2]
}
