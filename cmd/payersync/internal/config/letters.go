package config

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net"
	netmail "net/mail"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/text/language"

	"payersync/connector"
	"payersync/connector/letters"
	"payersync/connector/letters/templates"
	"payersync/connector/mail"
	"payersync/mapping/strict"
)

// Letters configures the letters to payers without a signature.
type Letters struct {
	Sender            string       `yaml:"sender" jsonschema:"enum=nobody,enum=service,enum=payersync" jsonschema_description:"Who writes to payers. nobody: you, by the file of payersync mandates handover. service: the billing service does, and payersync sends nothing. payersync: these letters. Default nobody."`
	ServiceChasingOff bool         `yaml:"service_chasing_off" jsonschema_description:"Your word that the billing service neither writes to payers nor reminds them, so that nobody is asked twice. payersync check asks for it where sender is payersync. Default false."`
	SMTP              *LettersSMTP `yaml:"smtp" jsonschema_description:"The mail server that letters are handed to."`
	From              string       `yaml:"from" jsonschema_description:"The sender as payers see it: a name and an address, as in Harbour Bakery accounts <accounts@harbour.example>."`
	ReplyTo           string       `yaml:"reply_to" jsonschema_description:"Where answers go: one address that somebody reads. Default the address of from."`
	Legal             string       `yaml:"legal" jsonschema_description:"Who the sender is, as the law wants it in business mail: company, address, register. It stands below every letter."`
	LinkHosts         []string     `yaml:"link_hosts" jsonschema_description:"The hosts of signing links. A link elsewhere is never mailed."`
	Languages         []string     `yaml:"languages" jsonschema:"minItems=1" jsonschema_description:"The languages of letters, as codes; payersync comes with en, de and fr. The first is for payers of whom none is known. Default en."`
	Steps             []string     `yaml:"steps" jsonschema:"minItems=1,maxItems=5" jsonschema_description:"When letters are due, in days after the first one: the invitation, then at most four reminders. Default 0d, 3d, 7d, 14d, 30d."`
	Window            string       `yaml:"window" jsonschema_description:"When letters leave, by the clock of the connection. Default Mon-Fri 08:30-17:00."`
	TimeZone          string       `yaml:"time_zone" jsonschema_description:"The time zone of payers, for example Europe/London; connections[].letters.time_zone says another for one connection. Default UTC."`
	Holidays          []string     `yaml:"holidays" jsonschema_description:"Days on which no letter leaves, as 2026-12-28, besides weekends outside of the window, 24 to 26 December, 31 December and 1 January."`
	PerMinute         int          `yaml:"per_minute" jsonschema:"minimum=1,maximum=600" jsonschema_description:"How many letters leave in a minute. Default 20."`
	PerDay            int          `yaml:"per_day" jsonschema:"minimum=1,maximum=4500" jsonschema_description:"How many letters leave on a day; large mail providers have more rules for senders of 5,000 and more. Default 500."`
	TestTo            string       `yaml:"test_to" jsonschema_description:"Who gets all letters while the billing service is a sandbox: one address. Without it they go nowhere."`
	Templates         string       `yaml:"templates" jsonschema_description:"A folder with letters of your own, which take the place of those that come with payersync."`
	Journal           string       `yaml:"journal" jsonschema_description:"A file that knows what was sent, outside of the ledger and its backups, so that a restored ledger sends nothing again; best on another disk. Default the path of the ledger and .letters behind it."`
	StopURL           string       `yaml:"stop_url" jsonschema_description:"Where payers stop reminders by a click, as https://HOST/letters/stop: that path of server.webhooks has to be reached there. Default that path on the host of billing.webhook.public_url; without one payers stop them by a reply."`
	DKIMSelector      string       `yaml:"dkim_selector" jsonschema_description:"The selector of the key with which your mail server signs; payersync check looks whether it is published."`

	JournalWithin connector.Within `yaml:"-"` // the folder that must contain it
}

// LettersSMTP is the mail server for letters.
type LettersSMTP struct {
	Host     string `yaml:"host" jsonschema:"required" jsonschema_description:"The mail server."`
	Port     int    `yaml:"port" jsonschema:"required,minimum=1,maximum=65535" jsonschema_description:"Its port: 465 or 587 as a rule."`
	TLS      string `yaml:"tls" jsonschema:"enum=starttls,enum=implicit,enum=none" jsonschema_description:"How the connection is encrypted; none for a server on this machine. Default implicit on port 465, else starttls."`
	User     string `yaml:"user" jsonschema_description:"env:NAME, file:PATH or the name itself. Left out, nobody signs in."`
	Password Secret `yaml:"password" jsonschema_description:"env:NAME or file:PATH."`
}

// ConnectionLetters holds the different settings for one connection's payers.
type ConnectionLetters struct {
	Language string   `yaml:"language" jsonschema_description:"The language for payers of whom none is known; one of letters.languages. Default the first of them."`
	TimeZone string   `yaml:"time_zone" jsonschema_description:"The time zone of these payers. Default letters.time_zone."`
	Holidays []string `yaml:"holidays" jsonschema_description:"More days on which these payers get no letter, as 2026-05-25."`
}

func defaultLetters() Letters {
	return Letters{
		Sender: string(letters.SenderNobody), Languages: []string{"en"}, Steps: []string{"0d", "3d", "7d", "14d", "30d"},
		Window: "Mon-Fri 08:30-17:00", TimeZone: "UTC", PerMinute: 20, PerDay: 500,
	}
}

var (
	linkHost     = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:[0-9]{1,5})?$`)
	dkimSelector = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$`)
)

// letters checks the sender of letters, and payersync's requirements for sending.
func (c *check) letters() {
	l := &c.config.Letters
	at := strict.Path{"letters"}
	for _, needed := range []struct {
		key     string
		missing bool
		why     string
	}{
		{"smtp", l.SMTP == nil, "name the mail server for the letters"},
		{"from", l.From == "", "name the sender, for example Harbour Bakery accounts <accounts@harbour.example>"},
		{"legal", strings.TrimSpace(l.Legal) == "", "write the sender's address and register, as business mail must"},
		{"link_hosts", len(l.LinkHosts) == 0, "list the hosts of signing links, for example [pay.example.com]"},
	} {
		if needed.missing && l.Sender == string(letters.SenderPayersync) {
			c.report(at, "the key %q is missing in letters, since sender is payersync; %s", needed.key, needed.why)
		}
	}
	if l.SMTP != nil {
		c.lettersSMTP(at.Key("smtp"), l.SMTP)
	}
	c.lettersSender(at, l)
	for i, h := range l.LinkHosts {
		if !linkHost.MatchString(h) {
			c.report(at.Key("link_hosts").Index(i), "%s is the name of a host alone, for example pay.example.com",
				at.Key("link_hosts").Index(i))
		}
	}
	c.lettersTimes(at, l)
	if l.TestTo != "" {
		c.address(at.Key("test_to"), &l.TestTo)
	}
	if l.StopURL != "" {
		c.url(at.Key("stop_url"), l.StopURL)
	}
	if l.DKIMSelector != "" && !dkimSelector.MatchString(l.DKIMSelector) {
		c.report(at.Key("dkim_selector"), "letters.dkim_selector is the name before ._domainkey, for example mail2026")
	}
	c.connectionLetters()
	if c.config.Node != nil && l.Sender == string(letters.SenderPayersync) && !filepath.IsAbs(l.Journal) {
		c.report(at, "letters.journal needs a file with its whole path, because the ledger is no file; name one on a disk shared by all nodes, below accounts.files of their configuration")
	}
	if l.Journal != "" {
		l.JournalWithin = c.dataFile(at.Key("journal"), &l.Journal)
	}
	if l.Templates != "" {
		c.ownFile(at.Key("templates"), l.Templates)
		l.Templates = c.path(l.Templates)
	}
	if l.Templates != "" || l.Sender == string(letters.SenderPayersync) {
		c.lettersTemplates()
	}
}

func (c *check) address(at strict.Path, address *string) {
	*address = strings.TrimSpace(*address)
	if err := mail.CheckAddress(*address); err != nil {
		c.report(at, "%s cannot be used: %v; write one bare address, for example accounts@harbour.example", at, err)
	}
}

func (c *check) lettersSMTP(at strict.Path, s *LettersSMTP) {
	if s.TLS == "" {
		s.TLS = string(mail.StartTLS)
		if s.Port == 465 {
			s.TLS = string(mail.ImplicitTLS)
		}
	}
	user := Secret{connector.NewSecret(s.User)} // which is none; it may stand in the same place as the password
	c.resolve(at.Key("user"), &user)
	s.User = user.Expose()
	c.resolve(at.Key("password"), &s.Password)
	signsIn, password := c.doc.Node(at.Key("user")) != nil, c.doc.Node(at.Key("password")) != nil
	switch {
	case !linkHost.MatchString(s.Host) && net.ParseIP(s.Host) == nil || strings.Contains(s.Host, ":") &&
		net.ParseIP(s.Host) == nil:
		c.report(at.Key("host"), "%s is the name of the mail server alone, for example smtp.example.com; its port has a key of its own", at.Key("host"))
	case isLinkLocal(s.Host):
		c.report(at.Key("host"), linkLocal, at.Key("host"))
	case s.TLS == string(mail.NoTLS) && !connector.IsLoopback(s.Host):
		c.report(at.Key("tls"), "%s can be none for a server on this machine only; use starttls or implicit", at.Key("tls"))
	case s.TLS == string(mail.NoTLS) && signsIn:
		c.report(at.Key("tls"), "%s is none, so a password would go in the clear; use starttls or implicit, or remove user and password", at.Key("tls"))
	case signsIn && !password:
		c.report(at, "%s has a user and no password; add the key password, or remove user", at)
	case password && !signsIn:
		c.report(at, "%s has a password and no user; add the key user, or remove password", at)
	}
}

// lettersSender checks the sender's details visible to payers.
func (c *check) lettersSender(at strict.Path, l *Letters) {
	if l.From != "" {
		from, err := netmail.ParseAddress(l.From)
		if err == nil {
			err = mail.CheckAddress(from.Address)
		}
		if _, domain, _ := strings.Cut(strings.TrimRight(l.From, ">"), "@"); err != nil || !strings.Contains(domain, ".") {
			c.report(at.Key("from"), "letters.from must be a name and one address, for example Harbour Bakery accounts <accounts@harbour.example>")
		} else if l.ReplyTo == "" {
			l.ReplyTo = from.Address
		}
	}
	if l.ReplyTo != "" {
		c.address(at.Key("reply_to"), &l.ReplyTo)
	}
	const longest = 400
	if strings.ContainsFunc(strings.TrimSpace(l.Legal), func(r rune) bool { return r < ' ' }) ||
		len([]rune(l.Legal)) > longest {
		c.report(at.Key("legal"), "letters.legal is one line of %d characters at most", longest)
	}
	for i, code := range l.Languages {
		if tag, err := language.Parse(code); err != nil || tag == language.Und {
			c.report(at.Key("languages").Index(i), "%s is no code of a language, as en or de-AT are",
				at.Key("languages").Index(i))
		} else if slices.Contains(l.Languages[:i], code) {
			c.report(at.Key("languages").Index(i), "the language %s stands twice; remove one", code)
		}
	}
}

// lettersTimes checks when letters are due, and when they leave.
func (c *check) lettersTimes(at strict.Path, l *Letters) {
	const apart = 3
	last := 0
	for i, text := range l.Steps {
		at := at.Key("steps").Index(i)
		switch days, err := stepDays(text); {
		case err != nil:
			c.report(at, "%s: %q is no number of days; write it as 7d", at, text)
		case i == 0 && days != 0:
			c.report(at, "the first of letters.steps is the invitation; write it as 0d")
		case i > 0 && days < last+apart:
			c.report(at, "%s is less than %d days after the one before it, and nobody gets two letters so close; write %dd or more", at, apart, last+apart)
		case days > letters.LongestLadder:
			c.report(at, "%s is more than %d days after the first letter, when nothing is sent any more; remove it", at,
				letters.LongestLadder)
		default:
			last = days
		}
	}
	if _, err := letters.ParseWindow(l.Window); err != nil {
		c.report(at.Key("window"), "%v", err)
	}
	c.timeZone(at.Key("time_zone"), l.TimeZone)
	c.holidays(at.Key("holidays"), l.Holidays)
}

func (c *check) timeZone(at strict.Path, name string) {
	if _, err := time.LoadLocation(name); err != nil || name == "Local" {
		c.report(at, "there is no time zone %q; write it as Europe/London", name)
	}
}

func (c *check) holidays(at strict.Path, days []string) {
	for i, text := range days {
		if _, err := letters.ParseDay(text); err != nil {
			c.report(at.Index(i), "%v", err)
		}
	}
}

func (c *check) connectionLetters() {
	for i := range c.config.Connections {
		l := &c.config.Connections[i].Letters
		at := strict.Path{"connections"}.Index(i).Key("letters")
		if l.TimeZone != "" {
			c.timeZone(at.Key("time_zone"), l.TimeZone)
		}
		if l.Language != "" && !slices.Contains(c.config.Letters.Languages, l.Language) {
			c.report(at.Key("language"), "%s is not in letters.languages, which has %s; add it there", at.Key("language"),
				strings.Join(c.config.Letters.Languages, ", "))
		}
		c.holidays(at.Key("holidays"), l.Holidays)
	}
}

// lettersTemplates reads the templates, once the keys they depend on are right.
func (c *check) lettersTemplates() {
	if len(c.problems) > 0 {
		return
	}
	_, err := c.config.LetterTemplates()
	var wrong *strict.Error
	if errors.As(err, &wrong) {
		c.problems = append(c.problems, wrong.Problems...)
	} else if err != nil {
		c.report(strict.Path{"letters", "templates"}, "%v", err)
	}
}

// stepDays reads a number of days such as 7d.
func stepDays(text string) (int, error) {
	number, isDays := strings.CutSuffix(strings.TrimSpace(text), "d")
	days, err := strconv.ParseUint(number, 10, 16)
	if err != nil || !isDays {
		return 0, fmt.Errorf("%q is no number of days", text)
	}
	return int(days), nil
}

// LetterTemplates reads the templates of letters.
func (c *Config) LetterTemplates() (*templates.Set, error) {
	l := c.Letters
	o := templates.Config{ReplyTo: l.ReplyTo, Legal: l.Legal, StopURL: c.StopURL(), LinkHosts: l.LinkHosts,
		Languages: l.Languages}
	if l.From != "" {
		from, err := netmail.ParseAddress(l.From)
		if err != nil {
			return nil, fmt.Errorf("letters.from: %w", err)
		}
		o.From = *from
	}
	if l.Templates != "" {
		o.Own, o.OwnName = os.DirFS(l.Templates), l.Templates
		if _, err := fs.Stat(o.Own, "."); err != nil {
			return nil, errors.New("the folder of letters.templates cannot be read; make it, or remove the key to use the letters that come with payersync")
		}
	}
	return templates.Load(o)
}

// MailServer returns the mail server for letters, nil without one; hello is this machine's name in the
// greeting.
func (c *Config) MailServer(hello string) *mail.Server {
	if c.Letters.SMTP == nil {
		return nil
	}
	s := c.Letters.SMTP
	return &mail.Server{
		Addr: net.JoinHostPort(s.Host, strconv.Itoa(s.Port)), TLS: mail.Encryption(s.TLS), Username: s.User,
		Password: s.Password.Secret, HelloName: hello, Reach: c.Reach(),
	}
}

// LetterSettings returns the settings of letters; hello is this machine's name in the greeting.
func (c *Config) LetterSettings(hello string) (*letters.Settings, error) {
	l := c.Letters
	if l.Journal == "" && c.Node == nil {
		l.Journal = c.Ledger.Path + ".letters"
	}
	out := &letters.Settings{
		Sender: letters.Sender(l.Sender), From: l.From, ReplyTo: l.ReplyTo, Legal: l.Legal, LinkHosts: l.LinkHosts,
		Languages: l.Languages,
		Language:  map[string]string{}, Zones: map[string]*time.Location{}, Holidays: map[string][]letters.Day{},
		PerMinute: l.PerMinute, PerDay: l.PerDay, Test: c.isTest(), TestTo: l.TestTo, Journal: l.Journal,
		JournalWithin: l.JournalWithin,
	}
	if c.Node != nil {
		out.Node = cmp.Or(hello, "unnamed")
	}
	var problems []error
	note := func(err error) { problems = append(problems, err) }
	for _, text := range l.Steps {
		days, err := stepDays(text)
		note(err)
		out.Steps = append(out.Steps, days)
	}
	var err error
	out.Window, err = letters.ParseWindow(l.Window)
	note(err)
	days := func(connection string, texts []string) {
		for _, text := range texts {
			day, err := letters.ParseDay(text)
			note(err)
			out.Holidays[connection] = append(out.Holidays[connection], day)
		}
	}
	days("", l.Holidays)
	for _, conn := range c.Connections {
		zone := l.TimeZone
		if conn.Letters.TimeZone != "" {
			zone = conn.Letters.TimeZone
		}
		out.Zones[conn.Name], err = time.LoadLocation(zone)
		note(err)
		if conn.Letters.Language != "" {
			out.Language[conn.Name] = conn.Letters.Language
		}
		days(conn.Name, conn.Letters.Holidays)
	}
	if from, err := netmail.ParseAddress(l.From); err == nil {
		out.Address = from.Address
		for _, address := range []string{from.Address, l.ReplyTo} {
			if _, domain, _ := strings.Cut(address, "@"); domain != "" && !slices.Contains(out.Own, strings.ToLower(domain)) {
				out.Own = append(out.Own, strings.ToLower(domain))
			}
		}
	}
	if out.Sender != letters.SenderPayersync {
		return out, errors.Join(problems...)
	}
	set, err := c.LetterTemplates()
	note(err)
	out.Templates, out.Post = set, c.MailServer(hello)
	return out, errors.Join(problems...)
}

// isTest reports whether the billing service is one for trying: its payers get nothing.
func (c *Config) isTest() bool {
	u, err := url.Parse(c.Billing.BaseURL)
	return c.Billing.Profile == "sandbox" || err == nil && connector.IsLoopback(u.Hostname())
}
