package pages

import "html/template"

// A Guide explains one topic to people who use the pages.
type Guide struct {
	Name    string // of the topic, its address is /help/NAME
	Title   string
	Readers string        // its readers
	HTML    template.HTML // the text, from the program itself
}

// helpTopics lists the guides.
func (v *visit) helpTopics() error { return v.show("help", "Help", v.pages.cfg.Guides) }

// guide shows one guide.
func (v *visit) guide() error {
	for _, g := range v.pages.cfg.Guides {
		if g.Name == v.PathValue("topic") {
			return v.show("guide", g.Title, g.HTML)
		}
	}
	return notFound
}
