package syncer_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"payersync/connector"
	"payersync/connector/sandbox"
	"payersync/connector/syncer"
	"payersync/mapping"
)

// maxPreview is the goal for the time of a preview over 100,000 stored records on
// two cores; maxPeak is that for its memory.
const maxPreview = 10 * time.Second

// previewEdit changes every customer and asks for a mandate of each.
var previewEdit = strings.Replace(benchMapping, "name: trim(Name)\n", "name: upper(trim(Name))\n", 1) +
	"mandate:\n  request: Email != \"\"\n"

// BenchmarkPreview makes previews of an edit over 100,000 linked records, each in a new process that opens
// the ledger first. It reports the longest time, the processor time of both cores together, and the largest
// resident set. It fails above the goals.
//
//	go test -run '^$' -bench Preview -benchtime 3x ./connector/syncer
func BenchmarkPreview(b *testing.B) {
	self, folder := must[string](b)(os.Executable()), b.TempDir()
	service := sandbox.New(sandbox.Options{Seed: 1, DiscardRequests: true})
	p := must[*plant](b)(newPlant(b.Context(), folder, "http://localhost", service.RoundTripper(), *benchRows,
		maxInFlight))
	must[syncer.Result](b)(p.run(b.Context(), connector.RunBackfill))
	if err := p.close(); err != nil {
		b.Fatal(err)
	}
	var times, cores, peaks []float64
	for b.Loop() {
		cmd := exec.CommandContext(b.Context(), self)
		cmd.Env = append(os.Environ(), childWork+"=preview", childAddress+"=http://localhost", childFolder+"="+folder,
			childRows+"="+strconv.Itoa(*benchRows))
		cmd.Stderr = os.Stderr
		var took, peak float64
		if _, err := fmt.Sscan(string(must[[]byte](b)(cmd.Output())), &took, &peak); err != nil {
			b.Fatal(err)
		}
		times, peaks = append(times, took), append(peaks, peak/1024)
		cores = append(cores, (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds())
	}
	took, peak := slices.Max(times), slices.Max(peaks)
	b.ReportMetric(took, "preview_s")
	b.ReportMetric(slices.Max(cores), "cpu_s")
	b.ReportMetric(peak, "peak_MiB")
	if took > maxPreview.Seconds() || peak > maxPeak {
		b.Errorf("the preview took %.1f s and %.0f MiB, the goals are %v and %d", took, peak, maxPreview, maxPeak)
	}
}

// previewChild makes the preview that its environment describes and writes its
// seconds and its peak memory in KiB.
func previewChild(out io.Writer) error {
	rows, err := strconv.Atoi(os.Getenv(childRows))
	if err != nil {
		return err
	}
	ctx := context.Background()
	p, err := openPlant(ctx, os.Getenv(childFolder), os.Getenv(childAddress), nil, rows, maxInFlight)
	if err != nil {
		return err
	}
	m, err := mapping.Load("mapping.yaml", []byte(previewEdit), p.register.info())
	if err != nil {
		return errors.Join(err, p.close())
	}
	start := time.Now()
	got, err := p.syncer.Preview(ctx, syncer.Connection{Name: "acme", Info: p.register.info(), Mapping: m},
		syncer.PreviewOptions{Limit: 10})
	took := time.Since(start).Seconds()
	if err == nil && (got.Updates != rows || got.Links != rows) {
		err = fmt.Errorf("%d of %d records would be updated and %d asked", got.Updates, rows, got.Links)
	}
	peak, peakErr := peakMemory()
	fmt.Fprintln(out, took, peak)
	return errors.Join(err, peakErr, p.close())
}
