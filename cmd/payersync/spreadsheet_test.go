package main

import (
	"context"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"payersync/internal/longtest"
)

// A real spreadsheet opens the hand-over file: it takes no cell for a formula, and shows every
// name as it is in the books.
//
// covers F52
func TestASpreadsheetOpensTheHandoverFile(t *testing.T) {
	longtest.Story(t, "LibreOffice")
	t.Parallel()
	soffice, err := exec.LookPath("soffice")
	if err != nil {
		t.Skip("LibreOffice is not installed here; csv_test.go looks for formulas in what a parser reads")
	}
	names := []string{"=1+1", "+44 20", "-1", "@SUM(A1)", "＝cmd|' /C calc'!A0", "＋1", "－1", "＠x",
		`Ada "Best", Ltd; & Sons`, "Łódź Ørsted ß", "محمد علي", "2026-11-20", "ｆｕｌｌ", "'quoted'", "=HYPERLINK(\"http://x\")"}
	records := people(len(names))
	for i, name := range names {
		records[i].Name = name
	}
	w := newWorld(t, records)
	w.expect(exitDone, "sync")
	open := func(text, separator string) (cells [][]string, formulas []string) {
		folder := t.TempDir()
		file := filepath.Join(folder, "links.csv")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		// 76 is UTF-8, and the last word makes a formula of what looks like one, as a click on the file does
		filter := "CSV:" + separator + ",34,76,1,,1033,false,true,false,false,false,0,true"
		run := exec.CommandContext(ctx, soffice, "--headless", "-env:UserInstallation=file://"+folder+"/profile",
			"--infilter="+filter, "--convert-to", "fods", "--outdir", folder, file)
		if out, err := run.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return readSheet(t, filepath.Join(folder, "links.fods"))
	}
	if _, formulas := open("name\n=1+1\n", "44"); len(formulas) != 1 {
		t.Fatalf("a formula in a file is not seen here: %q", formulas)
	}
	for _, args := range [][]string{{"mandates", "handover"}, {"mandates", "handover", "--for", "excel-de"},
		{"report", "--output", "csv"}} {
		separator := "44"
		if slices.Contains(args, "excel-de") {
			separator = "59"
		}
		cells, formulas := open(w.expect(exitDone, args...).out, separator)
		if len(formulas) > 0 {
			t.Errorf("%v: taken for formulas: %q", args, formulas)
		}
		column := slices.Index(cells[0], "name")
		if column < 0 {
			t.Fatalf("%v: no column name in %q", args, cells[0])
		}
		var got []string
		for _, row := range cells[1:] {
			got = append(got, row[column])
		}
		want := slices.Clone(names)
		for i, name := range want {
			if strings.IndexAny(name, "=+-@＝＋－＠") == 0 {
				want[i] = "'" + name
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%v: names (-books +spreadsheet):\n%s", args, diff)
		}
	}
}

// readSheet returns the texts of the cells of a spreadsheet as LibreOffice keeps it, and its
// formulas.
func readSheet(t *testing.T, path string) (cells [][]string, formulas []string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	in, text, inCell, times := xml.NewDecoder(f), strings.Builder{}, false, 1
	for {
		token, err := in.Token()
		if errors.Is(err, io.EOF) {
			return cells, formulas
		}
		if err != nil {
			t.Fatal(err)
		}
		switch e := token.(type) {
		case xml.StartElement:
			switch e.Name.Local {
			case "table-row":
				cells = append(cells, nil)
			case "table-cell":
				inCell, times = true, 1
				text.Reset()
				for _, a := range e.Attr {
					switch a.Name.Local {
					case "formula":
						formulas = append(formulas, a.Value)
					case "number-columns-repeated":
						times, _ = strconv.Atoi(a.Value)
					}
				}
			}
		case xml.CharData:
			if inCell {
				text.Write(e)
			}
		case xml.EndElement:
			if e.Name.Local == "table-cell" {
				inCell = false
				row := &cells[len(cells)-1]
				for range min(times, 100) { // those that are alike side by side are kept once
					*row = append(*row, strings.TrimSpace(text.String()))
				}
			}
		}
	}
}
