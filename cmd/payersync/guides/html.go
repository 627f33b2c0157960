package guides

import (
	"fmt"
	"html"
	"regexp"
	"strings"
)

// guideCommand names another guide.
var guideCommand = regexp.MustCompile("`payersync help ([a-z-]+)`")

// render writes the HTML of a guide. It knows headings, paragraphs, lists of one level, tables, code, emphasis and links.
// A test compares it with a renderer of all of Markdown. The program would be half a megabyte larger with it.
func render(text string) string {
	lines := strings.Split(guideCommand.ReplaceAllString(text, "[`payersync help $1`](/help/$1)"), "\n")
	var out strings.Builder
	for len(lines) > 0 {
		n := 1
		switch line := lines[0]; {
		case line == "":
		case strings.HasPrefix(line, "#"):
			level := len(line) - len(strings.TrimLeft(line, "#"))
			fmt.Fprintf(&out, "<h%d>%s</h%[1]d>\n", level, inline(strings.TrimSpace(line[level:])))
		case strings.HasPrefix(line, "```"):
			n = renderCode(&out, lines)
		case strings.HasPrefix(line, "|"):
			n = renderTable(&out, lines)
		case itemText(line) != "":
			n = renderList(&out, lines)
		default:
			for n < len(lines) && lines[n] != "" && !strings.HasPrefix(lines[n], "```") && itemText(lines[n]) == "" {
				n++
			}
			fmt.Fprintf(&out, "<p>%s</p>\n", inline(strings.Join(lines[:n], "\n")))
		}
		lines = lines[n:]
	}
	return out.String()
}

// renderCode writes the block of code at the beginning of lines, and returns the number of its lines.
func renderCode(out *strings.Builder, lines []string) int {
	class, n := "", 1
	if language := strings.TrimPrefix(lines[0], "```"); language != "" {
		class = ` class="language-` + language + `"`
	}
	fmt.Fprintf(out, "<pre><code%s>", class)
	for ; n < len(lines) && lines[n] != "```"; n++ {
		out.WriteString(escape(lines[n]) + "\n")
	}
	out.WriteString("</code></pre>\n")
	return n + 1
}

// renderTable writes the table at the beginning of lines, and returns the number of its lines.
func renderTable(out *strings.Builder, lines []string) int {
	row := func(line, cell string) {
		out.WriteString("<tr>\n")
		line = strings.ReplaceAll(strings.Trim(strings.TrimSpace(line), "|"), `\|`, "\x00")
		for text := range strings.SplitSeq(line, "|") {
			text = strings.ReplaceAll(strings.TrimSpace(text), "\x00", "|")
			fmt.Fprintf(out, "<%s>%s</%[1]s>\n", cell, inline(text))
		}
		out.WriteString("</tr>\n")
	}
	out.WriteString("<table>\n<thead>\n")
	row(lines[0], "th")
	out.WriteString("</thead>\n<tbody>\n")
	n := 2 // behind the line of dashes
	for ; n < len(lines) && strings.HasPrefix(lines[n], "|"); n++ {
		row(lines[n], "td")
	}
	out.WriteString("</tbody>\n</table>\n")
	return n
}

var item = regexp.MustCompile(`^(?:- |[0-9]+\. )(.+)$`)

// itemText is the text of an item of a list; "" for another line.
func itemText(line string) string {
	if m := item.FindStringSubmatch(line); m != nil {
		return m[1]
	}
	return ""
}

// renderList writes the list at the beginning of lines, and returns the number of its lines.
func renderList(out *strings.Builder, lines []string) (n int) {
	kind := "ol"
	if strings.HasPrefix(lines[0], "-") {
		kind = "ul"
	}
	fmt.Fprintf(out, "<%s>\n", kind)
	for ; n < len(lines) && itemText(lines[n]) != ""; n++ {
		fmt.Fprintf(out, "<li>%s</li>\n", inline(itemText(lines[n])))
	}
	fmt.Fprintf(out, "</%s>\n", kind)
	return n
}

// span matches a part of a line: code, a link, strong or emphasised text.
var span = regexp.MustCompile("`([^`]+)`|\\[((?:[^\\]`]|`[^`]*`)+)\\]\\(([^)]+)\\)|\\*\\*([^*]+)\\*\\*|\\*([^*\\s][^*]*)\\*")

// inline writes the inside of a paragraph.
func inline(text string) string {
	var out strings.Builder
	for text != "" {
		m := span.FindStringSubmatchIndex(text)
		if m == nil {
			break
		}
		out.WriteString(escape(text[:m[0]]))
		part := func(i int) string { return text[m[2*i]:m[2*i+1]] }
		switch {
		case m[2] >= 0:
			out.WriteString("<code>" + escape(part(1)) + "</code>")
		case m[4] >= 0:
			fmt.Fprintf(&out, `<a href="%s">%s</a>`, escape(part(3)), inline(part(2)))
		case m[8] >= 0:
			out.WriteString("<strong>" + inline(part(4)) + "</strong>")
		default:
			out.WriteString("<em>" + inline(part(5)) + "</em>")
		}
		text = text[m[1]:]
	}
	return out.String() + escape(text)
}

// escape writes a text as HTML, in the spelling of the other renderer.
func escape(text string) string {
	return strings.NewReplacer("&#39;", "'", "&#34;", "&quot;").Replace(html.EscapeString(text))
}
