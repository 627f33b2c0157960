package pages

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"html/template"
	"io/fs"
	"net/http"
	"path"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"payersync/connector"
	"payersync/connector/admin"
	"payersync/state"
)

//go:embed web
var web embed.FS

// assets are the files used by pages. Their names contain a hash of the content, so browsers cache them permanently.
var assets, assetNames = func() (files map[string][]byte, names map[string]string) {
	files, names = map[string][]byte{}, map[string]string{}
	for _, name := range []string{"style.css", "pages.js", "icon.svg"} {
		data, err := fs.ReadFile(web, "web/"+name)
		if err != nil {
			panic(err) // it was embedded
		}
		sum := sha256.Sum256(data)
		ext := path.Ext(name)
		as := strings.TrimSuffix(name, ext) + "." + hex.EncodeToString(sum[:6]) + ext
		files[as], names[name] = data, "/assets/"+as
	}
	return files, names
}()

func asset(w http.ResponseWriter, r *http.Request) {
	data, ok := assets[r.PathValue("name")]
	if !ok {
		http.NotFound(w, r)
		return
	}
	h := w.Header()
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	h.Set("Content-Type", map[string]string{".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
		".svg": "image/svg+xml"}[path.Ext(r.PathValue("name"))])
	_, _ = w.Write(data)
}

// functions are the functions for templates.
var functions = template.FuncMap{
	"asset":    func(name string) string { return assetNames[name] },
	"plural":   connector.Plural,
	"days":     days,
	"number":   number,
	"stamp":    func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
	"time":     func(t time.Time) string { return t.UTC().Format("2 Jan 2006 15:04 UTC") },
	"day":      func(t time.Time) string { return t.UTC().Format("2 Jan 2006") },
	"stored":   since,
	"mandate":  mandate,
	"outcome":  outcome,
	"inbox":    inboxChip,
	"delivery": deliveryPath,
	"payerPath": func(connection, id string) string {
		return payerPath(state.RecordID{Connection: connection, SourceID: id})
	},
	"word":     func(sign, word, kind string) chip { return chip{sign, word, kind} },
	"sourceOf": sourceOf, "sourceChip": sourceChip,
	"planned":    planChip,
	"seconds":    admin.Roughly,
	"lasted":     lasted,
	"why":        why,
	"did":        did,
	"date":       func(t time.Time) string { return t.UTC().Format(time.DateOnly) },
	"letterKind": letterKind,
	"cut":        cut,
	"does":       actEffect,

	"mappingTabs": func(path, here string) []tab { return mappingTabs(path, here, false) },
}

// cut shortens somebody's text to one line.
func cut(text string) string {
	const most = 120
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return text
}

// days says how long something stands so.
func days(n int) string {
	if n == 0 {
		return "today"
	}
	return connector.Plural(n, "day")
}

// number writes a count with its thousands apart.
func number(n int) string {
	text := strconv.Itoa(n)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}

// templates are the pages, by name. Each is the layout with a content of its own. They are read
// when the first page is shown: most processes show none.
var templates = sync.OnceValue(func() map[string]*template.Template {
	files, err := fs.Glob(web, "web/*.html")
	if err != nil {
		panic(err)
	}
	layout := template.Must(template.New("").Funcs(functions).ParseFS(web, "web/layout.html", "web/parts.html"))
	out := map[string]*template.Template{}
	for _, file := range files {
		name := strings.TrimSuffix(path.Base(file), ".html")
		if name != "layout" && name != "parts" {
			out[name] = template.Must(template.Must(layout.Clone()).ParseFS(web, file))
		}
	}
	return out
})

// shown is the data of the layout.
type shown struct {
	Title   string
	Nav     []entry
	Search  bool   // the page has a search for payers in its head
	User    *User  // nil for nobody
	Only    string // the connections that the person sees alone; "" for all
	Note    string // the result of the last act
	Content any
}

// entry is an entry of the navigation.
type entry struct {
	Path, Label, Icon string
	Here              bool
	Count             int // of what waits there; 0 for nothing, or not counted yet
}

// nav are the entries of the navigation, in fixed order.
var nav = []entry{
	{Path: "/", Label: "Overview", Icon: "overview"},
	{Path: "/payers", Label: "Payers", Icon: "payers"},
	{Path: "/mandates", Label: "Mandates", Icon: "mandates"},
	{Path: "/mandates/letters", Label: "Letters", Icon: "letters"},
	{Path: "/matches", Label: "Matches", Icon: "matches"},
	{Path: "/plans", Label: "Plans", Icon: "plans"},
	{Path: "/runs", Label: "Runs", Icon: "runs"},
	{Path: "/mapping", Label: "Mapping", Icon: "mapping"},
	{Path: "/webhooks", Label: "Webhooks", Icon: "webhooks"},
	{Path: "/settings", Label: "Settings", Icon: "settings"},
	{Path: "/help", Label: "Help", Icon: "help"},
}

// render answers with a page. It renders the whole page before sending the first byte, so no visitor sees half a page.
func (p *Pages) render(w http.ResponseWriter, v *visit, status int, name, title string, content any) {
	s := shown{Title: title, Content: content}
	if v != nil {
		s.User, s.Nav, s.Note, s.Search = &v.User, v.nav(), v.note(), v.pages.served["/payers"]
		if v.pages.limited {
			s.Only = strings.Join(v.pages.cfg.Connections, ", ")
		}
		if s.Search {
			v.pages.cfg.Lists.Prepare(v.Context())
		}
	}
	var page bytes.Buffer
	if err := templates()[name].ExecuteTemplate(&page, "layout", s); err != nil {
		p.cfg.Report(Event{Status: http.StatusInternalServerError, Err: err})
		http.Error(w, "The page could not be made. See the log of payersync.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(nameAccount(calm(page.Bytes()), p.cfg.Ledger.AccountName()))
}

// pagePart matches a part of a page: a form field with its content, which comes back with the form, a tag, or a text.
var pagePart = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?s)<textarea.*?</textarea>|<[^>]*>|[^<]+`)
})

// nameAccount adds an account to the command lines in the texts of a page.
func nameAccount(page []byte, account string) []byte {
	if account == "" || !bytes.Contains(page, []byte("payersync ")) {
		return page
	}
	return pagePart().ReplaceAllFunc(page, func(part []byte) []byte {
		if part[0] == '<' {
			return part
		}
		return []byte(connector.NameAccount(string(part), account))
	})
}

// foreign matches text from other people on a page. It excludes form fields, because their content comes back.
var foreign = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`<(?:bdi|title)>[^<]*`) })

// calm replaces characters able to turn or hide surrounding text by symbols, within text from other people. The command
// line does the same.
func calm(page []byte) []byte {
	if bytes.IndexFunc(page, turns) < 0 {
		return page
	}
	return foreign().ReplaceAllFunc(page, func(text []byte) []byte {
		return bytes.Map(func(r rune) rune {
			if turns(r) {
				return utf8.RuneError
			}
			return r
		}, text)
	})
}

// turns reports whether a character turns or hides text: an override, an embedding or an isolate, or a control
// character other than white space.
func turns(r rune) bool {
	return connector.Harmless(r) != r && r != '\n' && r != '\t' && r != '\r'
}
