package csvfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// covers F45, F88
func TestFileThatIsNotWholeIsAnErrorThatSaysWhatToDo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	tests := []struct {
		name string
		path string
		want string // behind "cannot read PATH: "
		is   error
	}{
		{"absent", filepath.Join(dir, "absent.csv"), "there is no such file; put the export there, or correct its path",
			fs.ErrNotExist},
		{"directory", dir, "it is not a plain file; give the path of the exported CSV file", nil},
		{"device", os.DevNull, "it is not a plain file; give the path of the exported CSV file", nil},
		{"empty", write(t, ""), "it is empty; export it again", nil},
		{"blank lines only", write(t, "\n \n\r\n"),
			"it has no header row; correct id in the configuration or export the file with its header", nil},
		{"misspelt id", write(t, "Account Number,Name\n"),
			`none of its first 50 rows has a column "AccountNumber" (did you mean "Account Number"?); correct id in the configuration or export the file with its header`, nil},
		{"no header", write(t, "A1,Ann\nA2,Bob\n"),
			`none of its first 50 rows has a column "AccountNumber"; correct id in the configuration or export the file with its header`, nil},
		{"spreadsheet", write(t, "PK\x03\x04\x14\x00\x06\x00"),
			"it is a spreadsheet, not a CSV file; save it from the spreadsheet as CSV UTF-8", nil},
		{"UTF-16 without mark", write(t, "A\x00c\x00c\x00\n\x00"),
			"it looks like UTF-16 without a byte order mark; set encoding to utf-16le or utf-16be, or save it as CSV UTF-8",
			nil},
		{"UTF-16 without header", write(t, "\xff\xfeA\x00\n\x00"),
			`none of its first 50 rows has a column "AccountNumber"; correct id in the configuration or export the file with its header`, nil},
		{"no end of a quoted title", write(t, "\"Customers\nAccountNumber,Name\nA1,Ann\n"),
			"line 1 has a quotation mark in the wrong place, so that its header cannot be found; correct id in the configuration or export the file with its header", nil},
		{"carriage returns", write(t, "AccountNumber,Name\rA1,Ann\r"),
			"its lines end as on very old Macintosh computers; save it as CSV UTF-8", nil},
		{"heading that is no text", write(t, "AccountNumber,N\x00ame\nA1,Ann\n"),
			"the heading of column 2 in line 1 holds characters that are no text; correct the heading or set encoding", nil},
		{"too many columns", write(t, "AccountNumber"+strings.Repeat(",x", 100*MaxColumns)+"\n"),
			"its header has 100001 columns, more than 1000; export fewer columns", nil},
		{"cut in a row", write(t, "AccountNumber,Name\nA1,Ann\nA2"),
			"its last line ends in the middle of a row, so rows may be missing behind it; export it again, or end the last line if the file is whole", io.ErrUnexpectedEOF},
		{"cut in a quoted cell", write(t, "AccountNumber,Name\nA1,Ann\nA2,\"Bo"),
			"its last line ends in the middle of a row, so rows may be missing behind it; export it again, or end the last line if the file is whole", io.ErrUnexpectedEOF},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := collect(t.Context(), configured(t, Config{Path: tt.path, ID: []string{"AccountNumber"}}))
			var failure *Error
			if !errors.As(err, &failure) {
				t.Fatalf("error = %v, want an *Error", err)
			}
			if want := "cannot read " + tt.path + ": " + tt.want; err.Error() != want {
				t.Errorf("error\n got %s\nwant %s", err, want)
			}
			if tt.is != nil && !errors.Is(err, tt.is) {
				t.Errorf("error %v does not wrap %v", err, tt.is)
			}
		})
	}
}

func TestFileAboveTheSizeLimitIsRefused(t *testing.T) {
	t.Parallel()
	path := write(t, "Id\n")
	if err := os.Truncate(path, MaxFileBytes+1); err != nil {
		t.Fatal(err)
	}
	_, err := collect(t.Context(), configured(t, Config{Path: path, ID: []string{"Id"}}))
	if err == nil || !strings.Contains(err.Error(), "more than 256 MiB") {
		t.Errorf("error = %v, want one that names the limit", err)
	}
}

func TestGoodRowsOfACutFileComeThrough(t *testing.T) {
	t.Parallel()
	got, err := collect(t.Context(), source(t, "Id,Name\nA1,Ann\nA2,\"Bo"))
	if err == nil {
		t.Error("a cut file was read without error")
	}
	want := []string{`A1: {"Id":"A1","Name":"Ann"}`,
		"line 3! Line 3 has a quotation mark in the wrong place, so that rows and text cannot be told apart from line 3 on. " +
			"None of it was used. Please correct that line (inside quotation marks, a mark is written twice) and export the file again."}
	if diff := cmp.Diff(want, brief(got)); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
}

// covers F45
func TestFileThatChangesWhileItIsReadIsNotACompleteRead(t *testing.T) {
	t.Parallel()
	changes := map[string]func(t *testing.T, path string) error{
		"appended": func(_ *testing.T, path string) error {
			f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			_, err = f.WriteString("B1,Bob\n")
			return errors.Join(err, f.Close())
		},
		"truncated": func(_ *testing.T, path string) error { return os.Truncate(path, 100) },
		"touched": func(_ *testing.T, path string) error {
			return os.Chtimes(path, time.Time{}, time.Unix(1, 0))
		},
		"replaced": func(t *testing.T, path string) error { return os.Rename(write(t, "Id,Name\n"), path) },
		"removed":  func(_ *testing.T, path string) error { return os.Remove(path) },
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := source(t, many(2*pageSize+1))
			pages, last := 0, error(nil)
			for _, err := range s.Customers(t.Context(), time.Time{}) {
				if pages++; pages == 1 {
					if err := change(t, s.path); err != nil {
						t.Fatal(err)
					}
				}
				last = err
			}
			if last == nil || !strings.Contains(last.Error(),
				"it changed while it was being read; run again when nothing writes to it") {
				t.Errorf("error = %v, want one that says the file changed", last)
			}
		})
	}
}

// many returns a file of n good rows.
func many(n int) string {
	var b strings.Builder
	b.WriteString("Id,Name,Email,Phone,Address,City,Postcode,Status\n")
	for i := range n {
		fmt.Fprintf(&b, "A%06d,\"Saltmarsh Bakery %d, Ltd\",accounts%d@saltmarsh.example,01632 960123,12 Quayside,Whitby,YO21 9ZZ,Active\n", i, i, i)
	}
	return b.String()
}

func TestPagesHoldAtMost500Records(t *testing.T) {
	t.Parallel()
	var sizes []int
	for page, err := range source(t, many(2*pageSize+1)).Customers(t.Context(), time.Now()) {
		if err != nil {
			t.Fatal(err)
		}
		sizes = append(sizes, len(page.Records))
	}
	if diff := cmp.Diff([]int{500, 500, 1}, sizes); diff != "" {
		t.Errorf("page sizes (-want +got):\n%s", diff)
	}
}
