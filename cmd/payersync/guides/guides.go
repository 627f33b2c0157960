// Package guides carries the guides for people who use payersync. The program prints them, and
// the pages show them. The HTML beside each text is made from it by a test of this package.
package guides

import (
	"embed"
	"slices"
	"strings"
)

//go:embed *.md html/*.html
var files embed.FS

// A Guide explains one topic to one kind of reader.
type Guide struct {
	Name    string // of the topic, as in payersync help NAME
	Title   string // the heading of the text
	Readers string // its readers
	Text    string // in Markdown, with the heading
	HTML    string // the same text for the pages, at /help/NAME
}

// topics are the guides in the order in which people need them.
var topics = []struct{ name, readers string }{
	{"first-hour", "everybody"},
	{"pages", "accountants"},
	{"letters", "accountants"},
	{"matching", "accountants"},
	{"sources", "administrators"},
	{"systems", "administrators"},
	{"profiles", "administrators"},
	{"mapping", "administrators"},
	{"billing", "administrators"},
	{"operations", "operators"},
	{"many-machines", "operators"},
	{"privacy", "operators"},
	{"how-it-works", "engineers"},
	{"figures", "engineers"},
}

// All returns every guide, in the order in which people need them.
func All() []Guide {
	all := make([]Guide, len(topics))
	for i, topic := range topics {
		text, html := read(topic.name+".md"), read("html/"+topic.name+".html")
		heading, _, _ := strings.Cut(strings.TrimPrefix(text, "# "), "\n")
		all[i] = Guide{Name: topic.name, Title: heading, Readers: topic.readers, Text: text, HTML: html}
	}
	return all
}

func read(name string) string {
	text, err := files.ReadFile(name)
	if err != nil {
		panic(err) // it is compiled in; a test opens each
	}
	return string(text)
}

// Find returns the guide with this name, and whether there is one.
func Find(name string) (Guide, bool) {
	all := All()
	i := slices.IndexFunc(all, func(g Guide) bool { return g.Name == name })
	if i < 0 {
		return Guide{}, false
	}
	return all[i], true
}
