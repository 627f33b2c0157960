package syncer_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"iter"
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

var benchMatches = flag.Int("bench-matches", 20_000, "records, and as many customers, of BenchmarkMatch")

var (
	matchFirsts  = strings.Fields("Ashcombe Brindle Cawthorn Denholme Eastoft Fulwood Garstang Haverton Ingleby Jarrow Kirkstall Lowther Marsden Netherby Oakworth Penrith Quernmore Ribston Saltaire Thirsk Ulverston Wetherby Yeadon Bramham Colne")
	matchSeconds = strings.Fields("Anchor Barrow Castle Dale Ember Forge Garden Harbour Island Junction Kettle Lantern Meadow Needle Orchard Paddock Quay River Steeple Tower Upland Valley Wharf Yard Abbey Bridge Chapel Dock Elm Field")
	matchTrades  = strings.Fields("Bakery Brewery Carpets Dairy Electrics Florists Garage Hosiery Ironworks Joinery Kennels Laundry Motors Nursery Opticians Printers Quarrying Roofing Saddlery Timber")
)

// matchTrader returns one of many companies: its number makes its name, and no two have one.
func matchTrader(i int) (name, email, postcode string) {
	firsts, seconds, trades := len(matchFirsts), len(matchSeconds), len(matchTrades)
	name = matchFirsts[i%firsts] + " " + matchSeconds[i/firsts%seconds] + " " + matchTrades[i/firsts/seconds%trades]
	if group := i / firsts / seconds / trades; group > 0 {
		name += " " + matchFirsts[group%firsts]
	}
	return name + " Ltd", fmt.Sprintf("office@trader%d.example", i),
		fmt.Sprintf("LS%d %d%c%c", 1+i%28, 1+i/28%9, 'A'+i/252%20, 'A'+i/5040%20)
}

// traders is an accounting system of so many companies.
type traders struct{ register }

func (g *traders) Customers(context.Context, time.Time) iter.Seq2[connector.Page, error] {
	return func(yield func(connector.Page, error) bool) {
		for from := 0; from < g.rows; from += 500 {
			page := make([]connector.Record, min(500, g.rows-from))
			for i := range page {
				name, email, postcode := matchTrader(from + i)
				page[i] = g.record(from + i)
				page[i].Data = fmt.Appendf(nil, `{"No":%q,"Name":%q,"Email":%q,"Postcode":%q,"Group":"payer"}`, page[i].SourceID,
					name, email, postcode)
			}
			if !yield(connector.Page{Records: page}, nil) {
				return
			}
		}
	}
}

// addTraders puts the companies into the service as somebody entered them: every fourth without e-mail address and with a letter
// lost, and none with a key.
func addTraders(b *testing.B, service *sandbox.Sandbox, n int) {
	b.Helper()
	for i := range n {
		name, email, postcode := matchTrader(i)
		if i%4 == 3 {
			name, email = name[:2]+name[3:], ""
		}
		raw := must[[]byte](b)(json.Marshal(map[string]any{"name": name,
			"people":    []any{map[string]string{"name": "Office", "email": email}},
			"addresses": []any{map[string]string{"postCode": postcode}}}))
		must[string](b)(service.Add(raw))
	}
}

// BenchmarkMatch compares the stored records of a ledger with the customers of its index, as payers match does, and keeps
// what it found. Each round is a process of its own that opens the ledger first. It reports the longest time, the processor
// time of both cores together, the largest resident set, and the records with a candidate.
//
//	go test -run '^$' -bench Match -benchtime 1x -timeout 30m ./connector/syncer -bench-matches 200000
func BenchmarkMatch(b *testing.B) {
	n, self, folder := *benchMatches, must[string](b)(os.Executable()), b.TempDir()
	service := sandbox.New(sandbox.Options{Seed: 1, DiscardRequests: true})
	addTraders(b, service, n)
	p := must[*plant](b)(newPlant(b.Context(), folder, "http://localhost", service.RoundTripper(), n, maxInFlight))
	p.syncer.Settings.Adopt = syncer.AdoptExact // which stores records and customers, and compares none
	conn := must[syncer.Connection](b)(p.traders())
	must[syncer.Result](b)(p.syncer.Run(b.Context(), conn,
		syncer.RunOptions{Kind: connector.RunPlan, Trigger: "manual", Actor: "bench", Holder: "bench"}))
	if err := p.close(); err != nil {
		b.Fatal(err)
	}
	var times, cores, peaks, found []float64
	for b.Loop() {
		cmd := exec.CommandContext(b.Context(), self)
		cmd.Env = append(os.Environ(), childWork+"=match", childAddress+"=http://localhost", childFolder+"="+folder,
			childRows+"="+strconv.Itoa(n))
		cmd.Stderr = os.Stderr
		var took, peak, records float64
		if _, err := fmt.Sscan(string(must[[]byte](b)(cmd.Output())), &took, &peak, &records); err != nil {
			b.Fatal(err)
		}
		times, peaks, found = append(times, took), append(peaks, peak/1024), append(found, records)
		cores = append(cores, (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds())
	}
	b.ReportMetric(slices.Max(times), "match_s")
	b.ReportMetric(slices.Max(cores), "cpu_s")
	b.ReportMetric(slices.Max(peaks), "peak_MiB")
	b.ReportMetric(slices.Min(found), "records")
}

// traders returns the connection to the companies.
func (p *plant) traders() (syncer.Connection, error) {
	source := &traders{*p.register}
	m, err := mapping.Load("mapping.yaml", []byte(p.mapping), source.info())
	return syncer.Connection{Name: "acme", Source: source, Info: source.info(), Mapping: m}, err
}

// matchChild makes the comparison that its environment describes and writes its seconds, its peak memory in KiB, and how many
// records it found a candidate for.
func matchChild(out io.Writer) error {
	rows, err := strconv.Atoi(os.Getenv(childRows))
	if err != nil {
		return err
	}
	ctx := context.Background()
	p, err := openPlant(ctx, os.Getenv(childFolder), os.Getenv(childAddress), nil, rows, maxInFlight)
	if err != nil {
		return err
	}
	conn, err := p.traders()
	if err != nil {
		return errors.Join(err, p.close())
	}
	start := time.Now()
	_, err = p.syncer.Match(ctx, conn)
	took := time.Since(start).Seconds()
	n := 0
	if err == nil {
		n, err = p.ledger.MatchCount(ctx, conn.Name)
	}
	peak, peakErr := peakMemory()
	fmt.Fprintln(out, took, peak, n)
	return errors.Join(err, peakErr, p.close())
}
