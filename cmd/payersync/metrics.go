package main

import (
	"context"
	"net"
	"net/http"

	"github.com/sirupsen/logrus"

	"payersync/connector"
	"payersync/connector/metrics"
	"payersync/state"
)

// metricsHandler returns the handler of server.metrics: the counts since the process began, and the facts of
// its ledger and the configuration in force.
func (svc *service) metricsHandler() http.HandlerFunc {
	s := svc.inForce.Load()
	counter := s.Ledger.NewCounter()
	s.Metrics.Follow(func(ctx context.Context) (metrics.Facts, error) { return svc.metricsFacts(ctx, counter) })
	return s.Metrics.Handler().ServeHTTP
}

// warnOfMetrics warns of an address that other machines may reach: they can read the metrics.
func warnOfMetrics(log *logrus.Logger, address string) {
	host, _, err := net.SplitHostPort(address)
	if err != nil || connector.IsLoopback(host) {
		return
	}
	log.WithField("address", address).Warn("other machines can reach the metrics, which ask for no password; they show names of connections, numbers of payers and the state of runs, but no personal data; let only the monitoring system reach them")
}

// metricsFacts reads the ledger's facts for the metrics. It omits removed connections, like status.
func (svc *service) metricsFacts(ctx context.Context, counter *state.Counter) (f metrics.Facts, err error) {
	s := svc.inForce.Load().Session
	if f.MonitoringCounts, err = counter.Count(ctx); err != nil {
		return f, err
	}
	if f.LastPass, err = s.Ledger.LastPass(ctx); err != nil {
		return f, err
	}
	if f.Plans, err = s.Ledger.WaitingPlans(ctx); err != nil {
		return f, err
	}
	if f.Sources, err = s.Ledger.Sources(ctx); err != nil {
		return f, err
	}
	if f.Mappings, err = s.Ledger.MappingProblems(ctx); err != nil {
		return f, err
	}
	if f.Serving, err = s.Ledger.Serving(ctx); err != nil {
		return f, err
	}
	if f.Consents, err = s.ConsentRows(ctx); err != nil {
		return f, err
	}
	jobs, err := svc.jobRows(ctx, s)
	if err != nil {
		return f, err
	}
	f.Jobs = append(f.Jobs, connector.Map(jobs,
		func(j jobRow) metrics.Job { return metrics.Job{JobRow: j.JobRow, NextAt: j.NextAt} })...)
	for _, c := range s.Config.Connections {
		f.Connections = append(f.Connections, c.Name)
		left, err := s.BudgetLeft(ctx, c)
		if err != nil {
			return f, err
		}
		f.Budgets = append(f.Budgets, metrics.Budget{Connection: c.Name, Left: left})
	}
	return f, nil
}
