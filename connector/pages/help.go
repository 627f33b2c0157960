package pages

import (
	"bytes"
	"html/template"
	"regexp"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
)

// A Guide explains one topic to users of the pages.
type Guide struct {
	Name    string // of the topic, its address is /help/NAME
	Title   string
	Readers string // the people for whom it is written
	Text    string // in Markdown, from the program itself
}

// guideCommand matches a guide's reference to another guide.
var guideCommand = regexp.MustCompile("`payersync help ([a-z-]+)`")

// helpTopics lists the guides.
func (v *visit) helpTopics() error { return v.show("help", "Help", v.pages.cfg.Guides) }

// guide shows one guide. References to other guides become links.
func (v *visit) guide() error {
	for _, g := range v.pages.cfg.Guides {
		if g.Name != v.PathValue("topic") {
			continue
		}
		text := guideCommand.ReplaceAllString(g.Text, "[`payersync help $1`](/help/$1)")
		var made bytes.Buffer
		if err := goldmark.New(goldmark.WithExtensions(extension.Table)).Convert([]byte(text), &made); err != nil {
			return err
		}
		return v.show("guide", g.Title, template.HTML(made.String())) //nolint:gosec // the text is compiled into the program, and goldmark leaves out raw HTML
	}
	return notFound
}
