// Package templates writes the letters asking payers for a signature: their content, as text and as HTML of
// the same paragraphs, and the message around it.
//
//	invitation.de.txt ┐  paragraphs ─▶ text ┐
//	   + frame.de.txt ┘       └──────▶ HTML ┴─▶ message ─▶ frozen bytes
//
// A template is a file of plain text: a line "Subject: …", an empty line, and paragraphs. A line of the file
// is a line of the letter. Fields stand in double braces and are a closed list, so no letter can contain an
// amount, a day or bank details. The frame stands below every letter: it names the sender and the reason, and
// says that nobody asks for bank details. There are templates in English, German and French. Your own ones
// are in a folder, follow the same rules, and replace these one by one.
//
// Package letters decides on sending, recipient and time.
package templates

import (
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	netmail "net/mail"
	"slices"
	"strings"

	"golang.org/x/text/language"

	"payersync/connector"
	"payersync/connector/letters"
	"payersync/mapping/strict"
)

// ThankYou is the kind of the letter after a signature.
const ThankYou letters.Kind = "thank_you"

// Kinds are all kinds of letters, in the order in which a payer may get them.
var Kinds = []letters.Kind{letters.Invitation, letters.Reminder, letters.LastCall, letters.Replaced, ThankYou}

// Shipped are the languages that come with payersync.
var Shipped = []string{"en", "de", "fr"}

//go:embed shipped/*.txt
var shipped embed.FS

// frameKind is the kind of the text below every letter.
const frameKind letters.Kind = "frame"

// Config name the sender, and the templates.
type Config struct {
	From      netmail.Address
	ReplyTo   string // an address
	Legal     string // the sender's legal details, in one line
	StopURL   string // where reminders are stopped, https and without the token; "" where replies do it
	LinkHosts []string
	Languages []string // BCP 47
	Own       fs.FS    // the folder with own templates; nil for none
	OwnName   string   // its name in problems
}

// Set is the templates of all kinds in some languages. It may be used by several goroutines.
type Set struct {
	options Config
	letters map[letters.Kind]map[string]*template
	version string
}

// Load reads the templates. Its error is a *strict.Error with every mistake in every file.
func Load(o Config) (*Set, error) {
	s := &Set{options: o, letters: map[letters.Kind]map[string]*template{}}
	hash := sha256.New()
	fmt.Fprintln(hash, layoutVersion)
	var problems []strict.Problem
	kinds := append([]letters.Kind{frameKind}, Kinds...)
	problems = append(problems, o.strangers(kinds)...)
	for _, kind := range kinds {
		s.letters[kind] = map[string]*template{}
		for _, code := range o.Languages {
			source, missing := o.source(kind, code)
			if missing != "" {
				problems = append(problems, strict.Problem{File: source.name, Line: 1, Column: 1, Message: missing})
				continue
			}
			fmt.Fprintf(hash, "%s.%s %d\n%s", kind, code, len(source.text), source.text)
			t, found := read(source, kind, o)
			problems = append(problems, found...)
			s.letters[kind][code] = t
		}
	}
	if len(problems) > 0 {
		slices.SortStableFunc(problems, func(a, b strict.Problem) int {
			return cmp.Or(strings.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
		})
		return nil, &strict.Error{Problems: slices.Compact(problems)}
	}
	s.version = hex.EncodeToString(hash.Sum(nil))
	return s, nil
}

// Version returns a hash of all the templates.
func (s *Set) Version() string { return s.version }

// source is the text of a template, and its file's name in messages.
type source struct {
	name, text string
	known      bool // it is built in: its words were checked at build time
}

// source finds the template of a kind in a language: an own one, or a shipped one, of the language itself or
// of its base language. If there is none, a sentence says what is missing.
func (o *Config) source(kind letters.Kind, code string) (found source, missing string) {
	base := code
	if tag, err := language.Parse(code); err == nil {
		b, _ := tag.Base()
		base = b.String()
	}
	for _, c := range []string{code, base} {
		if data, err := o.own(fileName(kind, c)); err == nil {
			return source{name: o.path(fileName(kind, c)), text: string(data)}, ""
		} else if !errors.Is(err, fs.ErrNotExist) {
			return source{name: o.path(fileName(kind, c))},
				fmt.Sprintf("it cannot be read: %v; mend that, or remove it to use the one that comes with payersync", err)
		}
	}
	if data, err := shipped.ReadFile("shipped/" + fileName(kind, base)); err == nil {
		return source{"shipped/" + fileName(kind, base), string(data), true}, ""
	}
	return source{name: o.path(fileName(kind, code))},
		fmt.Sprintf("there is no template of the %s in the language %s; write this file, or take %s from letters.languages (payersync comes with %s)", title(kind), code, code, strings.Join(Shipped, ", "))
}

func (o *Config) own(name string) ([]byte, error) {
	if o.Own == nil {
		return nil, fs.ErrNotExist
	}
	info, err := fs.Stat(o.Own, name)
	if err == nil && info.Size() > 4*MaxSize {
		return []byte(strings.Repeat(" ", MaxSize+1)), nil // its size is the mistake
	}
	if err != nil {
		return nil, err
	}
	return fs.ReadFile(o.Own, name)
}

func (o *Config) path(name string) string {
	return strings.TrimSuffix(cmp.Or(o.OwnName, "letters"), "/") + "/" + name
}

func fileName(kind letters.Kind, code string) string { return string(kind) + "." + code + ".txt" }

// title returns a kind as sentences have it.
func title(kind letters.Kind) string {
	if kind == letters.Replaced {
		return "letter about a replaced link"
	}
	return strings.ReplaceAll(string(kind), "_", " ")
}

// strangers finds files in the folder that are no template of anything.
func (o *Config) strangers(kinds []letters.Kind) (problems []strict.Problem) {
	if o.Own == nil {
		return nil
	}
	entries, err := fs.ReadDir(o.Own, ".")
	if err != nil {
		return []strict.Problem{{File: cmp.Or(o.OwnName, "letters"),
			Message: fmt.Sprintf("the folder of letters.templates cannot be read: %v; make it, or remove the key to use the letters that come with payersync", err)}}
	}
	var known []string
	for _, kind := range kinds {
		known = append(known, connector.Map(slices.Concat(o.Languages, Shipped),
			func(code string) string { return fileName(kind, code) })...)
	}
	for _, e := range entries {
		name := e.Name()
		if e.IsDir() || strings.HasPrefix(name, ".") || strings.HasSuffix(name, "~") || strings.EqualFold(name, "README.md") {
			continue
		}
		kind, rest, _ := strings.Cut(name, ".")
		code, isText := strings.CutSuffix(rest, ".txt")
		if _, err := language.Parse(code); slices.Contains(kinds, letters.Kind(kind)) && isText && err == nil {
			continue
		}
		message := "it is no template: files are called by kind and language, such as " + fileName(letters.Invitation, "en")
		if near := connector.Nearest(name, known); near != "" {
			message = "it is no template; did you mean " + near + "?"
		}
		problems = append(problems,
			strict.Problem{File: o.path(name), Line: 1, Column: 1, Message: message +
				" Rename it, or take it out of the folder"})
	}
	return problems
}

// Letter is the letter to a payer.
type Letter struct{ Subject, Text, HTML string }

// Fields are the possible values of a payer in a letter.
type Fields struct {
	Name    string // of the payer
	Contact string // who is addressed; "" for nobody
	Number  string // of the payer in the books
	Link    string
	Days    int    // since the first letter
	Stop    string // the token by which reminders end; "" where a reply does it
}

// values are the values for templates.
type values struct {
	Name, Contact, Link, Sender, Number string
	Days                                int
	Legal, ReplyTo, Stop                string
}

// Render returns a letter of a kind in a language.
func (s *Set) Render(kind letters.Kind, code string, f Fields) (Letter, error) {
	t, frame := s.letters[kind][code], s.letters[frameKind][code]
	if t == nil || frame == nil || kind == frameKind {
		return Letter{}, fmt.Errorf("there is no template of the %s in the language %q", title(kind), code)
	}
	if t.kind.hasLink() {
		if err := letters.CheckLink(f.Link, s.options.LinkHosts); err != nil {
			return Letter{}, err
		}
	}
	v := values{Name: value(f.Name), Contact: value(f.Contact), Number: value(f.Number), Link: f.Link, Days: f.Days}
	if s.options.StopURL != "" && f.Stop != "" {
		v.Stop = s.options.stopLink(f.Stop)
	}
	return t.render(frame, s.options.fill(v), code)
}

// fill adds the values common to all letters.
func (o *Config) fill(v values) values {
	v.Sender, v.Legal, v.ReplyTo = cmp.Or(inOneLine(o.From.Name), o.From.Address), inOneLine(o.Legal),
		cmp.Or(o.ReplyTo, o.From.Address)
	return v
}
