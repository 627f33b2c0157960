package templates

import (
	"fmt"
	"html"
	htmltemplate "html/template"
	"regexp"
	"slices"
	"strconv"
	"strings"
	texttemplate "text/template"
	"text/template/parse"
	"unicode"
	"unicode/utf8"

	"payersync/connector"
	"payersync/connector/letters"
	"payersync/mapping/strict"
)

// layoutVersion changes when the same templates make other letters.
const layoutVersion = "1"

// The bounds of a letter.
const (
	MaxSize    = 20_000 // bytes of a message, and of a template
	MaxSubject = 78     // characters
)

// kindOf is a kind with its rules.
type kindOf letters.Kind

// hasLink reports whether letters of that kind carry the signing link.
func (k kindOf) hasLink() bool { return k != kindOf(frameKind) && k != kindOf(ThankYou) }

// fields are the allowed fields in templates of that kind.
func (k kindOf) fields() []string {
	switch letters.Kind(k) {
	case frameKind:
		return []string{"Sender", "Name", "Number", "Legal", "ReplyTo", "Stop"}
	case ThankYou:
		return []string{"Name", "Contact", "Sender", "Number"}
	case letters.Reminder, letters.LastCall:
		return []string{"Name", "Contact", "Link", "Sender", "Days", "Number"}
	}
	return []string{"Name", "Contact", "Link", "Sender", "Number"}
}

// needs are the required fields in templates of that kind.
func (k kindOf) needs() []string {
	switch {
	case k == kindOf(frameKind):
		return []string{"Sender", "Legal", "ReplyTo", "Stop"}
	case k.hasLink():
		return []string{"Link", "Sender"}
	}
	return []string{"Sender"}
}

// template is one file that was read.
type template struct {
	kind       kindOf
	subject    *texttemplate.Template // nil of a frame
	paragraphs []paragraph
}

// paragraph is the same words twice.
type paragraph struct {
	text *texttemplate.Template
	html *htmltemplate.Template
}

// functions are the functions allowed in conditions.
var functions = map[string]any{"eq": true, "ne": true, "lt": true, "le": true, "gt": true, "ge": true, "and": true,
	"or": true, "not": true}

// reader reads one file and collects its mistakes.
type reader struct {
	source
	kind     kindOf
	options  Config
	problems []strict.Problem
	used     map[string][]int // the places of fields
}

// read reads a template. It is nil when there are problems.
func read(src source, kind letters.Kind, o Config) (*template, []strict.Problem) {
	r := &reader{source: src, kind: kindOf(kind), options: o, used: map[string][]int{}}
	r.text = strings.TrimPrefix(strings.ReplaceAll(r.text, "\r\n", "\n"), "\ufeff")
	t := r.read()
	if len(r.problems) > 0 {
		return nil, r.problems
	}
	return t, nil
}

// problem notes a mistake at a byte of the file.
func (r *reader) problem(at, width int, format string, args ...any) {
	at = max(0, min(at, len(r.text)))
	begin := strings.LastIndexByte(r.text[:at], '\n') + 1
	line, _, _ := strings.Cut(r.text[begin:], "\n")
	p := strict.Problem{
		File: r.name, Line: strings.Count(r.text[:at], "\n") + 1, Column: utf8.RuneCountInString(r.text[begin:at]) + 1,
		Message: fmt.Sprintf(format, args...), Source: line,
	}
	p.Width = max(1, min(width, utf8.RuneCountInString(line)-p.Column+1))
	const longest = 160
	if cut := []rune(line); len(cut) > longest { // a paragraph is one line: its part around the place is enough
		from := max(0, min(p.Column-1-longest/2, len(cut)-longest))
		p.Source, p.Width = "", 0
		p.Message += fmt.Sprintf(" (in “…%s…”)",
			strings.TrimSpace(string(cut[max(from, p.Column-21):min(len(cut), p.Column+39)])))
	}
	r.problems = append(r.problems, p)
}

func (r *reader) read() *template {
	switch {
	case len(r.text) > MaxSize:
		r.text = r.text[:0]
		r.problem(0, 1, "it is larger than %d bytes, which a letter may not be; shorten it", MaxSize)
		return nil
	case !utf8.ValidString(r.text):
		r.problem(len(r.text)-len(strings.TrimLeftFunc(r.text, func(c rune) bool { return c != utf8.RuneError })), 1,
			"it is not UTF-8; save it as UTF-8")
		return nil
	case strings.TrimSpace(r.text) == "":
		r.problem(0, 1, "it is empty; write the letter, or remove the file to use the one that comes with payersync")
		return nil
	}
	if i := strings.IndexFunc(r.text, hidden); i >= 0 {
		c, _ := utf8.DecodeRuneInString(r.text[i:])
		r.problem(i, 1, "here stands the invisible character %U, by which a text can look like another; remove it", c)
		return nil
	}
	t := &template{kind: r.kind}
	body := 0
	if r.kind != kindOf(frameKind) {
		t.subject, body = r.subject()
	}
	if len(r.problems) == 0 && strings.TrimSpace(r.text[body:]) == "" {
		r.problem(len(strings.TrimRight(r.text, "\n ")), 1,
			"there is no letter below the subject; write it, with an empty line between them")
	}
	for _, span := range paragraphsOf(r.text, body) {
		if p, ok := r.paragraph(span[0], span[1]); ok {
			t.paragraphs = append(t.paragraphs, p)
		}
	}
	r.words()
	r.needed()
	if len(r.problems) == 0 {
		r.try(t)
	}
	return t
}

// hidden reports whether a character is invisible, or changes the direction of text.
func hidden(c rune) bool {
	switch {
	case c == '\n':
		return false
	case unicode.IsControl(c), unicode.Is(unicode.Bidi_Control, c), c == '\u200b', c == '\u2060', c == '\ufeff',
		c == '\u00ad':
		return true
	}
	return false
}

// subject reads the head of a file, and returns where the letter begins.
func (r *reader) subject() (t *texttemplate.Template, body int) {
	head, _, _ := strings.Cut(r.text, "\n\n")
	at := 0
	for line := range strings.Lines(head) {
		name, value, isHeader := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		switch {
		case at == 0 && name == "Subject" && isHeader:
			from := len(name) + 1
			if strings.TrimSpace(value) == "" {
				r.problem(0, len(line), "the subject is empty; write what the letter is about")
				break
			}
			tree := r.tree(from, from+len(value))
			if tree == nil {
				break
			}
			for _, used := range r.used["Link"] {
				r.problem(used, 5, "the signing link does not belong in the subject; give it a paragraph of its own")
			}
			t = asText(tree)
		case at == 0:
			r.problem(0, len(strings.TrimSpace(line)),
				"the first line must be the subject; begin the file with a line such as Subject: {{.Sender}}: your direct debit mandate")
		case isHeader && !strings.Contains(name, " "):
			r.problem(at, len(name), "the head of a letter has a subject and nothing else; remove the line %s, or put an empty line before it", name)
		default:
			r.problem(at, 1, "there must be an empty line between the subject and the letter; add one")
		}
		at += len(line)
	}
	if len(head) == len(r.text) {
		return t, len(r.text)
	}
	return t, len(head) + 2
}

// paragraphsOf returns the beginnings and ends of paragraphs.
func paragraphsOf(text string, from int) (spans [][2]int) {
	begin := -1
	for at := from; at <= len(text); {
		line, _, more := strings.Cut(text[at:], "\n")
		switch blank := strings.TrimSpace(line) == ""; {
		case blank && begin >= 0:
			spans = append(spans, [2]int{begin, at - 1})
			begin = -1
		case !blank && begin < 0:
			begin = at
		}
		at += len(line) + 1
		if !more {
			if begin >= 0 {
				spans = append(spans, [2]int{begin, len(text)})
			}
			break
		}
	}
	return spans
}

func (r *reader) paragraph(from, to int) (paragraph, bool) {
	links := len(r.used["Link"])
	tree := r.tree(from, to)
	if tree == nil {
		return paragraph{}, false
	}
	if found := r.used["Link"]; len(found) > links && strings.TrimSpace(r.text[from:to]) != "{{.Link}}" {
		r.problem(found[links], 5,
			"the signing link must stand alone, so that people see where it leads; write {{.Link}} on a line of its own, with an empty line above and below")
	}
	page := tree.Copy()
	marked(page.Root)
	h, err := htmltemplate.New(tree.Name).AddParseTree(tree.Name, page)
	if err != nil {
		r.problem(from, to-from, "it cannot be shown as HTML: %v; write it in simpler words", err)
		return paragraph{}, false
	}
	return paragraph{asText(tree), h}, true
}

func asText(tree *parse.Tree) *texttemplate.Template {
	t, err := texttemplate.New(tree.Name).AddParseTree(tree.Name, tree)
	if err != nil {
		panic("templates: a tree has no name") // AddParseTree refuses nothing else
	}
	return t
}

// marked turns the words of a paragraph into HTML: they are text, and links are made of links.
func marked(list *parse.ListNode) {
	if list == nil {
		return
	}
	var out []parse.Node
	for _, node := range list.Nodes {
		switch n := node.(type) {
		case *parse.TextNode:
			n.Text = []byte(strings.ReplaceAll(html.EscapeString(string(n.Text)), "\n", "<br>\n"))
		case *parse.IfNode:
			marked(n.List)
			marked(n.ElseList)
		case *parse.WithNode:
			marked(n.List)
			marked(n.ElseList)
		case *parse.ActionNode:
			if name := n.Pipe.String(); name == ".Link" || name == ".Stop" {
				text := func(s string) parse.Node {
					return &parse.TextNode{NodeType: parse.NodeText, Pos: n.Pos, Text: []byte(s)}
				}
				out = append(out, text(`<a href="`), n.Copy(), text(`">`), n, text(`</a>`))
				continue
			}
		}
		out = append(out, node)
	}
	list.Nodes = out
}

// parseError finds line and cause in the parser's error.
var parseError = regexp.MustCompile(`^template: .*?:(\d+): (.*)$`)

// tree parses a part of the file and checks its conditions; nil if it is wrong.
func (r *reader) tree(from, to int) *parse.Tree {
	text := r.text[from:to]
	trees, err := parse.Parse("letter", text, "{{", "}}", functions)
	if err != nil {
		at, why := from, err.Error()
		if m := parseError.FindStringSubmatch(why); m != nil {
			line, _ := strconv.Atoi(m[1])
			for range line - 1 {
				if i := strings.IndexByte(r.text[at:to], '\n'); i >= 0 {
					at += i + 1
				}
			}
			why = m[2]
			if i := strings.Index(r.text[at:to], "{{"); i >= 0 {
				at += i
			}
		}
		r.problem(at, 2, "%s", parseSentence(why))
		return nil
	}
	tree := trees["letter"]
	for name := range trees {
		if name != "letter" {
			r.problem(from, 2, "a letter defines no templates of its own; remove {{define}} and {{block}}")
			return nil
		}
	}
	if tree == nil || tree.Root == nil {
		return nil
	}
	before := len(r.problems)
	r.list(tree.Root, from, false)
	if len(r.problems) > before {
		return nil
	}
	return tree
}

func parseSentence(why string) string {
	name := ""
	if _, rest, found := strings.Cut(why, `function "`); found {
		name, _, _ = strings.Cut(rest, `"`)
	}
	switch {
	case name != "":
		return fmt.Sprintf("there is no %s in letters; a field is written {{.Name}}, and conditions are made with eq, ne, lt, le, gt, ge, and, or, not", name)
	case strings.Contains(why, "unexpected EOF"):
		return "an {{if}} or {{with}} is not closed in its paragraph; write {{end}} before the empty line"
	case strings.Contains(why, "unexpected {{end}}"), strings.Contains(why, "unexpected {{else}}"):
		return "there is an {{end}} or {{else}} too many; remove it, or write the {{if}} that it belongs to into the same paragraph"
	case strings.Contains(why, "unclosed action"):
		return "these braces are not closed on their line; write }} behind the field"
	}
	return why + "; a field is written {{.Name}}, a condition {{if .Name}}…{{else}}…{{end}}"
}

// list checks nodes; with dotted, inside {{with}}, where {{.}} is its value.
func (r *reader) list(list *parse.ListNode, from int, dotted bool) {
	if list == nil {
		return
	}
	for _, node := range list.Nodes {
		at := from + int(node.Position())
		switch n := node.(type) {
		case *parse.TextNode:
		case *parse.ActionNode:
			r.pipe(n.Pipe, from, dotted)
		case *parse.IfNode:
			r.pipe(n.Pipe, from, dotted)
			r.list(n.List, from, dotted)
			r.list(n.ElseList, from, dotted)
		case *parse.WithNode:
			r.pipe(n.Pipe, from, dotted)
			r.list(n.List, from, true)
			r.list(n.ElseList, from, dotted)
		default:
			r.problem(at, 1, "a letter is made of fields, {{if}} and {{with}} alone; write it without %s", word(node))
		}
	}
}

// word returns how a node is written.
func word(node parse.Node) string {
	first, _, _ := strings.Cut(strings.Trim(node.String(), "{}- "), " ")
	return "{{" + first + "}}"
}

func (r *reader) pipe(pipe *parse.PipeNode, from int, dotted bool) {
	at := from + int(pipe.Position())
	if len(pipe.Decl) > 0 || len(pipe.Cmds) != 1 {
		r.problem(at, len(pipe.String()), "letters have no variables and no pipes; write the field itself, as {{.Name}}")
		return
	}
	args := pipe.Cmds[0].Args
	compares := false
	for i, arg := range args {
		at := from + int(arg.Position())
		switch n := arg.(type) {
		case *parse.FieldNode:
			r.field(at-len(strings.Join(n.Ident[1:], ".")), n.Ident, dotted) // its place is the last part's
		case *parse.VariableNode:
			if len(n.Ident) < 2 {
				r.problem(at, 1, "letters have no variables; write the field itself, as {{$.Name}}")
				continue
			}
			r.field(at, n.Ident[1:], false)
		case *parse.IdentifierNode:
			compares = compares || i == 0
		case *parse.PipeNode:
			r.pipe(n, from, dotted)
		case *parse.NumberNode, *parse.StringNode:
			if !compares {
				r.problem(at, 1, "text stands outside of the braces; take %s out of them", arg)
			}
			if _, isText := n.(*parse.StringNode); isText && compares &&
				!slices.Contains([]string{"eq", "ne"}, args[0].String()) {
				r.problem(at, 1, "text stands outside of the braces, and inside them behind eq and ne alone; take %s out of them",
					arg)
			}
		case *parse.DotNode:
			if !dotted {
				r.problem(at, 1, "{{.}} is something inside of {{with}} alone; name the field, as {{.Name}}")
			}
		default:
			r.problem(at, 1, "%s is nothing that a letter can tell; name a field, as {{.Name}}", arg)
		}
	}
}

// field checks and notes a field.
func (r *reader) field(at int, names []string, dotted bool) {
	name := strings.Join(names, ".")
	known := r.kind.fields()
	switch {
	case dotted:
		r.problem(at, len(name)+1,
			"inside of {{with}} the value itself is {{.}}, and other fields have a dollar sign; write {{$.%s}}", name)
		return
	case slices.Contains(known, name):
		r.used[name] = append(r.used[name], at)
		return
	}
	all := []string{"Name", "Contact", "Link", "Sender", "Days", "Number", "Legal", "ReplyTo", "Stop"}
	switch near := connector.Nearest(name, known); {
	case near != "":
		r.problem(at, len(name)+1, "there is no field %s; did you mean {{.%s}}?", name, near)
	case name == "Days":
		r.problem(at, len(name)+1, "the %s has no field Days, because no letter came before it; write it without",
			title(letters.Kind(r.kind)))
	case name == "Link" && r.kind == kindOf(ThankYou):
		r.problem(at, len(name)+1, "the mandate is signed, so a thank-you has no signing link; write it without")
	case slices.Contains(all, name):
		r.problem(at, len(name)+1, "the field %s does not belong here; the %s has %s", name, title(letters.Kind(r.kind)),
			strings.Join(known, ", "))
	default:
		r.problem(at, len(name)+1, "there is no field %s; the %s has %s", name, title(letters.Kind(r.kind)),
			strings.Join(known, ", "))
	}
}

// needed checks for the required contents of a letter.
func (r *reader) needed() {
	if len(r.problems) > 0 {
		return
	}
	end := len(strings.TrimRight(r.text, "\n "))
	for _, name := range r.kind.needs() {
		switch found := r.used[name]; {
		case len(found) == 0 && name == "Link":
			r.problem(end, 1, "the letter has no signing link; write {{.Link}} on a line of its own, with an empty line above and below")
		case len(found) == 0:
			r.problem(end, 1, "the %s does not tell {{.%s}}, which it must; add it", title(letters.Kind(r.kind)), name)
		case name == "Link" && len(found) > 1:
			r.problem(found[1], 5, "the letter has the signing link twice; remove one of them")
		}
	}
}
