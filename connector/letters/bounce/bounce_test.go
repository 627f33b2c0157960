package bounce_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"payersync/connector/letters/bounce"
)

// Reports as mail servers write them; names and addresses are invented.
func TestReportsOfMailServersAreRead(t *testing.T) {
	t.Parallel()
	for file, want := range map[string]bounce.Report{
		"postfix.eml":  {MessageID: "0b1e2d3c4f5a69788796a5b4c3d2e1f0@harbour.example", Kind: bounce.Hard, Status: "5.1.1"},
		"exchange.eml": {MessageID: "1b1e2d3c4f5a69788796a5b4c3d2e1f0@harbour.example", Kind: bounce.Hard, Status: "5.1.10"},
		"full.eml":     {MessageID: "2b1e2d3c4f5a69788796a5b4c3d2e1f0@harbour.example", Kind: bounce.Soft, Status: "5.2.2"},
		"delayed.eml":  {MessageID: "3b1e2d3c4f5a69788796a5b4c3d2e1f0@harbour.example", Kind: bounce.Soft, Status: "4.4.1"},
		"relayed.eml":  {MessageID: "4b1e2d3c4f5a69788796a5b4c3d2e1f0@harbour.example", Kind: bounce.None, Status: "2.0.0"},
		"mailbox.mbox": {MessageID: "5b1e2d3c4f5a69788796a5b4c3d2e1f0@harbour.example", Kind: bounce.Hard, Status: "5.1.1"},
	} {
		got, err := bounce.Parse(open(t, file))
		if err != nil || got != want {
			t.Errorf("%s says %+v, %v; want %+v", file, got, err, want)
		}
	}
}

func open(t testing.TB, file string) *strings.Reader {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	return strings.NewReader(string(b))
}

// report returns a delivery report of these fields about a message with this header.
func report(status, header string) string {
	return "From: mailer\r\nContent-Type: multipart/report; report-type=delivery-status; boundary=b\r\n\r\n--b\r\nContent-Type: text/plain\r\n\r\nIt did not arrive.\r\n" +
		"--b\r\nContent-Type: message/delivery-status\r\n\r\nReporting-MTA: dns; mx.example\r\n\r\n" + status +
		"\r\n--b\r\nContent-Type: text/rfc822-headers\r\n\r\n" + header + "\r\n--b--\r\n"
}

func TestWhatAStatusMeansForAnAddress(t *testing.T) {
	t.Parallel()
	for fields, want := range map[string]bounce.Kind{
		"Action: failed\r\nStatus: 5.1.1\r\n":                          bounce.Hard,
		"Action: failed\r\nStatus: 5.1.2 (bad destination system)\r\n": bounce.Hard,
		"Action: FAILED\r\nStatus:  5.2.1\r\n":                         bounce.Hard,
		"Action: failed\r\nStatus: 5.7.1\r\n":                          bounce.Soft,
		"Action: failed\r\nStatus: 5.1.8\r\n":                          bounce.Soft,
		// of our mail, or of nothing that can be told
		"Action: failed\r\nStatus: 5.0.0\r\n": bounce.Soft,
		"Action: failed\r\nStatus: 5.2.2\r\n": bounce.Soft, "Action: failed\r\nStatus: 4.2.2\r\n": bounce.Soft,
		"Action: delayed\r\nStatus: 4.0.0\r\n": bounce.Soft,
		"Action: delayed\r\nStatus: 5.1.1\r\n": bounce.Soft, "Action: delivered\r\nStatus: 2.1.5\r\n": bounce.None,
		"Action: expanded\r\nStatus: 5.1.1\r\n": bounce.None, "Status: 5.1.1\r\n": bounce.None,
		// of two recipients the worst counts
		"Action: relayed\r\nStatus: 2.0.0\r\n\r\nAction: failed\r\nStatus: 5.1.1\r\n": bounce.Hard,
	} {
		got, err := bounce.Parse(strings.NewReader(report(fields, "Message-ID: <a@b>\r\n")))
		if err != nil || got.Kind != want || got.MessageID != "a@b" {
			t.Errorf("%q means %+v, %v; want %s", fields, got, err, want)
		}
	}
}

// covers F134
func TestWhatIsNoReportOfAMessageIsRefused(t *testing.T) {
	t.Parallel()
	const failed = "Action: failed\r\nStatus: 5.1.1\r\n"
	for name, c := range map[string]struct {
		text string
		want error
	}{
		"nothing": {"", bounce.ErrNoReport},
		"no mail": {"hello\r\n", bounce.ErrNoReport},
		"an answer": {"From: ada\r\nContent-Type: text/plain\r\n\r\nPlease stop. Status: 5.1.1\r\n",
			bounce.ErrNoReport},
		"no type":          {"From: ada\r\n\r\nx\r\n", bounce.ErrNoReport},
		"no status":        {report("Action: failed\r\n", "Message-ID: <a@b>\r\n"), bounce.ErrNoReport},
		"another status":   {report("Action: failed\r\nStatus: 550 no\r\n", "Message-ID: <a@b>\r\n"), bounce.ErrNoReport},
		"no message":       {report(failed, "Subject: x\r\n"), bounce.ErrNoMessage},
		"a broken id":      {report(failed, "Message-ID: <a b>\r\n"), bounce.ErrNoMessage},
		"id in the report": {"Message-ID: <a@b>\r\n" + report(failed, "Subject: x\r\n"), bounce.ErrNoMessage},
		"too deep":         {nested(6, report(failed, "Message-ID: <a@b>\r\n")), bounce.ErrNoReport},
		"too many parts": {"From: x\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n" +
			strings.Repeat("--b\r\nContent-Type: text/plain\r\n\r\nx\r\n", 50) +
			"--b\r\nContent-Type: message/delivery-status\r\n\r\nA: b\r\n\r\n" + failed + "\r\n--b--\r\n", bounce.ErrNoReport},
		"too large": {report(failed, "X: "+strings.Repeat("x", 5<<20)+"\r\n"), bounce.ErrTooLarge},
	} {
		if got, err := bounce.Parse(strings.NewReader(c.text)); !errors.Is(err, c.want) {
			t.Errorf("%s: %+v, %v; want %v", name, got, err, c.want)
		}
	}
}

// nested puts a report into as many mails.
func nested(deep int, report string) string {
	for i := range deep {
		b := strings.Repeat("n", i+1)
		report = "From: x\r\nContent-Type: multipart/mixed; boundary=" + b + "\r\n\r\n--" + b + "\r\n" +
			strings.TrimPrefix(report, "From: mailer\r\n") + "\r\n--" + b + "--\r\n"
		report = strings.Replace(report, "--"+b+"\r\nFrom: x\r\n", "--"+b+"\r\n", 1)
	}
	return report
}

func TestAReportThatSomebodyPassedOnIsRead(t *testing.T) {
	t.Parallel()
	got, err := bounce.Parse(strings.NewReader(nested(1,
		report("Action: failed\r\nStatus: 5.1.1\r\n", "Message-ID: <a@b>\r\n"))))
	if err != nil || got.Kind != bounce.Hard {
		t.Errorf("it says %+v, %v", got, err)
	}
}

// Whatever a stranger sends, only a status and an id for look-ups are read.
func FuzzReports(f *testing.F) {
	for _, file := range []string{"postfix.eml", "exchange.eml", "full.eml", "mailbox.mbox"} {
		b, err := os.ReadFile(filepath.Join("testdata", file))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(b))
	}
	f.Add(report("Action: failed\r\nStatus: 5.1.1\r\n", "Message-ID: <a@b>\r\n"))
	f.Fuzz(func(t *testing.T, text string) {
		got, err := bounce.Parse(strings.NewReader(text))
		if err != nil {
			if got != (bounce.Report{}) {
				t.Errorf("with %v it says %+v", err, got)
			}
			return
		}
		if got.MessageID == "" || strings.ContainsAny(got.MessageID, "<> \r\n\x00") || len(got.Status) < 5 ||
			len(got.Status) > 9 {
			t.Errorf("it says %+v", got)
		}
		if got.Kind == bounce.Hard && (got.Status[0] != '5' || got.Status == "5.2.2") {
			t.Errorf("%s is taken for a dead address", got.Status)
		}
	})
}
