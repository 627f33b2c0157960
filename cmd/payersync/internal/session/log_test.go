package session

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode"

	"github.com/sirupsen/logrus"
)

// Whatever a value holds, it makes neither a second line of the log nor a command
// to the terminal, and no line without end.
//
// covers F91
func FuzzAValueStaysInItsLogLine(f *testing.F) {
	for _, seed := range []string{
		"Northwind", "two\nlines\r\n{\"level\":\"error\"}", "\x1b[2J\x1b]0;title\x07", "\u009b31m", "a\u202egnp.exe",
		"\u2066x\u2069\u200e\u061c",
		"\x00\x7f", "\xff\xfe", "\u2028\u2029\u0085", `quote" and \ and =`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		for _, format := range []string{"json", "text"} {
			var out bytes.Buffer
			log, err := NewLog(&out, "debug", format, nil)
			if err != nil {
				t.Fatal(err)
			}
			log.WithFields(logrus.Fields{"source_id": value, "error": errors.New(value)}).Info(value)
			line, rest, _ := strings.Cut(out.String(), "\n")
			if rest != "" {
				t.Errorf("%s: %q made more than a line: %q", format, value, out.String())
			}
			if at := strings.IndexFunc(line, steers); at >= 0 {
				t.Errorf("%s: %q reached the log as it is: %q", format, value, line[at:])
			}
			if format == "json" && !json.Valid([]byte(line)) {
				t.Errorf("%q made %s", value, line)
			}
		}
	})
}

// covers F91
func TestALongValueIsCutInTheLog(t *testing.T) {
	t.Parallel()
	for _, value := range []string{strings.Repeat("é", 50_000), strings.Repeat("\x01", 50_000)} {
		var out bytes.Buffer
		log, err := NewLog(&out, "debug", "json", nil)
		if err != nil {
			t.Fatal(err)
		}
		log.WithField("error", errors.New(value)).Info(value)
		if most := 2 * 3 * maxLogField; out.Len() > most+200 { // three bytes for one that is replaced
			t.Errorf("%d bytes made a line of %d, want %d at most", len(value), out.Len(), most+200)
		}
	}
}

// steers reports whether a character could do more at a terminal than be read.
func steers(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) }

// The log of a node has lines of many accounts, so a command line in it names the account.
func TestACommandLineInALogNamesTheAccountOfTheLine(t *testing.T) {
	t.Parallel()
	for name, write := range map[string]func(*logrus.Logger){
		"of an account": func(log *logrus.Logger) {
			log.AddHook(ofAccount("acme"))
			log.WithError(errors.New("it waits: payersync plan approve 7")).Warn("see payersync plan show 7")
		},
		"of a node": func(log *logrus.Logger) {
			log.WithField("account", "acme").WithError(errors.New("it waits: payersync plan approve 7")).Warn("see payersync plan show 7")
		},
	} {
		var out bytes.Buffer
		log, err := NewLog(&out, "info", "text", nil)
		if err != nil {
			t.Fatal(err)
		}
		write(log)
		log.Warn("see payersync nodes list")
		for _, want := range []string{"payersync plan approve --account acme 7", "payersync plan show --account acme 7",
			"see payersync nodes list"} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("the log %s does not say %q:\n%s", name, want, out.String())
			}
		}
	}
}
