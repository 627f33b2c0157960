package letters

import (
	"context"
	"fmt"
	"time"

	"payersync/connector"
	"payersync/state"
)

// Sender is the party writing to payers.
type Sender string

// The senders.
const (
	SenderNobody    Sender = "nobody"    // the links are handed over in a file
	SenderService   Sender = "service"   // the billing service sends and reminds by itself
	SenderPayersync Sender = "payersync" // these letters
)

// Post takes a letter to a mail server, once. Its error gives the outcome, as far as known: see package mail.
type Post interface {
	Send(ctx context.Context, from, to string, message []byte) (answer string, err error)
}

// Templates write letters.
type Templates interface {
	// Version returns a hash of all the templates, to tie an approval to them.
	Version() string
	// Write returns a letter as it leaves. The same draft gives the same bytes.
	Write(Draft) ([]byte, error)
}

// Kind selects the template of a letter.
type Kind string

// The kinds of letters.
const (
	Invitation Kind = "invitation"    // the first one
	Reminder   Kind = "reminder"      // any but the first and the last
	LastCall   Kind = "last_reminder" // after it somebody calls
	Replaced   Kind = "replaced"      // the first one about a mandate in the place of another
)

// Draft is the content of a letter and its recipient.
type Draft struct {
	Kind     Kind
	Language string // BCP 47; one of Settings.Languages

	To        string // the address alone
	MessageID string // without brackets
	Date      time.Time
	Stop      string // the token to end the reminders

	Name    string // of the payer
	Contact string // who is addressed; "" for nobody
	Number  string // of the payer in the books
	Link    string
	Days    int // since the first letter
}

// Settings select the recipients, times and amounts of letters. They are immutable while in use.
type Settings struct {
	Sender  Sender
	From    string // the sender as letters show it, with a name
	Address string // the sender's address alone
	ReplyTo string
	Legal   string // the sender's legal details

	LinkHosts []string          // a link elsewhere is never mailed
	Languages []string          // the first is the fall-back
	Language  map[string]string // of connections with another fall-back language
	Steps     []int             // days after the first letter, in order; the first is 0
	LinkValid time.Duration     // how long a link works; 0 if unknown
	Window    Window
	Zones     map[string]*time.Location // by connection; UTC by default
	Holidays  map[string][]Day          // of connections, with those of all under ""
	PerMinute int
	PerDay    int

	Test    bool     // the billing service is a sandbox, or on this machine: payers get nothing
	TestTo  string   // who gets the letters then; "" for nobody
	Own     []string // our own domains, without payers
	Journal string   // the path of the journal

	JournalWithin connector.Within // the folder that must contain it
	// the node that sends, which shares the folder of the journal with others; "" for a ledger that is a file
	Node string

	Templates Templates
	Post      Post
}

// MostSteps is how many steps a ladder has at most: an invitation and four reminders.
const MostSteps = state.LetterSteps

// LongestLadder is how many days after the first letter nothing is sent any more.
const LongestLadder = 60

// Day is a day of the calendar, in no time zone.
type Day struct {
	Year  int
	Month time.Month
	Day   int
}

// DayOf returns the day of a moment in its zone.
func DayOf(t time.Time) Day {
	y, m, d := t.Date()
	return Day{y, m, d}
}

// ParseDay reads a day written as 2026-11-23.
func ParseDay(text string) (Day, error) {
	t, err := time.Parse(time.DateOnly, text)
	if err != nil {
		return Day{}, fmt.Errorf("%q is no day; write it as 2026-11-23", text)
	}
	return DayOf(t), nil
}

// String returns the day as 2026-11-23.
func (d Day) String() string { return d.noon().Format(time.DateOnly) }

func (d Day) noon() time.Time { return time.Date(d.Year, d.Month, d.Day, 12, 0, 0, 0, time.UTC) }

// Since returns how many days lie between an earlier day and this one.
func (d Day) Since(earlier Day) int { return int(d.noon().Sub(earlier.noon()).Hours() / 24) }

// Plus returns the day so many days later.
func (d Day) Plus(days int) Day { return DayOf(d.noon().AddDate(0, 0, days)) }

// Window is when letters leave: on some days of the week, between two times of the day.
type Window struct {
	Days     [7]bool // by time.Weekday
	From, To int     // minutes after midnight; To is outside
}

// ParseWindow reads a window such as "Mon-Fri 08:30-17:00". Several days or ranges of days are
// separated by commas.
func ParseWindow(text string) (Window, error) {
	w, err := parseWindow(text)
	if err != nil {
		return Window{}, fmt.Errorf("the window %q cannot be used: %w; write it as Mon-Fri 08:30-17:00", text, err)
	}
	return w, nil
}
