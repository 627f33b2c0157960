package httpsource

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	yaml "go.yaml.in/yaml/v4"

	"payersync/mapping/strict"
)

// open is the value of a draft that a person must fill in.
const open = "?"

// MaxOpenAPI is the largest readable description of an API, in bytes.
const MaxOpenAPI = 32 << 20

// Draft returns a profile called name, as far as a description of an API (OpenAPI 3 or Swagger 2, YAML or JSON) tells
// it. A ? stands for what it does not tell: nothing reads with such a profile.
func Draft(name string, description []byte) ([]byte, error) {
	if len(description) > MaxOpenAPI {
		return nil, fmt.Errorf("it is larger than %d bytes", MaxOpenAPI)
	}
	var tree map[string]any
	if err := yaml.Unmarshal(description, &tree); err != nil || tree["paths"] == nil {
		return nil, errors.New("it is no OpenAPI description in YAML or JSON: there are no paths in it")
	}
	d := &drafting{root: tree}
	list := d.bestList()
	if list == nil {
		return nil, errors.New("no path in it answers GET with a list of customers, clients or contacts; write the profile by hand, or name such a list's path in a smaller file")
	}
	return []byte(d.write(name, *list)), nil
}

// drafting reads a description.
type drafting struct{ root map[string]any }

// listed is a path that answers with a list.
type listed struct {
	path    string
	get     map[string]any
	records string // the path to the rows
	answer  map[string]any
	row     map[string]any // the schema of a row
	score   int
}

// at follows references and keys.
func (d *drafting) at(v any, keys ...string) map[string]any {
	for range 20 {
		m, _ := v.(map[string]any)
		if ref, isRef := m["$ref"].(string); isRef {
			v = d.root
			for key := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
				m, _ := v.(map[string]any)
				v = m[strings.ReplaceAll(strings.ReplaceAll(key, "~1", "/"), "~0", "~")]
			}
			continue
		}
		if len(keys) == 0 {
			return m
		}
		v, keys = m[keys[0]], keys[1:]
	}
	return nil
}

// mostParts is how deep the parts of a schema are followed. A part may be the schema itself.
const mostParts = 4

// properties are the properties of a schema, also of one that is made of several.
func (d *drafting) properties(schema map[string]any) map[string]any {
	return d.propertiesWithin(schema, mostParts)
}

func (d *drafting) propertiesWithin(schema map[string]any, parts int) map[string]any {
	out := map[string]any{}
	if parts == 0 {
		return out
	}
	for _, of := range []string{"allOf", "oneOf", "anyOf"} {
		list, _ := schema[of].([]any)
		for _, part := range list {
			maps.Copy(out, d.propertiesWithin(d.at(part), parts-1))
		}
	}
	maps.Copy(out, d.at(schema, "properties"))
	return out
}

var customers = regexp.MustCompile(`(?i)(customer|client|contact|debtor|partner|thirdpart|part(y|ies)\b)`)

// bestList is the path that most likely lists customers.
func (d *drafting) bestList() (best *listed) {
	paths := d.at(d.root, "paths")
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		get := d.at(paths[path], "get")
		words := strings.Split(strings.Trim(path, "/"), "/")
		last := words[len(words)-1]
		if get == nil || !customers.MatchString(last) || strings.HasPrefix(last, "{") {
			continue
		}
		l := &listed{path: path, get: get, score: -3 * strings.Count(path, "{")}
		if !d.findRows(l) {
			continue
		}
		switch {
		case regexp.MustCompile(`(?i)^(customers?|clients?|contacts?)(\.json|\{format\})?$`).MatchString(last):
			l.score += 10
		case regexp.MustCompile(`(?i)customer|client|contact`).MatchString(last):
			l.score += 3
		}
		if best == nil || l.score > best.score || l.score == best.score && len(path) < len(best.path) {
			best = l
		}
	}
	return best
}

// findRows finds the list in the answer of a path.
func (d *drafting) findRows(l *listed) bool {
	good := d.at(l.get, "responses", "200")
	schema := d.at(good, "schema")
	for _, kind := range slices.Sorted(maps.Keys(d.at(good, "content"))) {
		if strings.Contains(kind, "json") {
			schema = d.at(good, "content", kind, "schema")
		}
	}
	if l.records = "$"; schema["items"] != nil {
		l.row = d.at(schema, "items")
		return true
	}
	l.answer = d.properties(schema)
	for _, name := range slices.Sorted(maps.Keys(l.answer)) {
		if inner := d.at(l.answer[name]); inner["items"] != nil && len(d.properties(d.at(inner, "items"))) > 1 {
			l.records, l.row = name, d.at(inner, "items")
			return true
		}
	}
	return false
}

// Names by which values are known.
var (
	pageNames     = regexp.MustCompile(`(?i)^(page|page_?number|current_?page|pageno)$`)
	offsetNames   = regexp.MustCompile(`(?i)^\$?(offset|skip|start|from)$`)
	cursorNames   = regexp.MustCompile(`(?i)^(next_?)?(cursor|(page_?)?token|continuation(_?token)?|starting_?after|page_?after)$`)
	sizeNames     = regexp.MustCompile(`(?i)^\$?(per_?page|page_?size|limit|top|items_?per_?page|size|count)$`)
	archivedNames = regexp.MustCompile(`(?i)^(include|show|with)_?(archived|inactive|deleted|hidden|disabled)$`)
	sinceNames    = regexp.MustCompile(`(?i)^(if-modified-since|.*(updated|modified|changed).*(since|after|min|from|gte?|at)?.*)$`)
	plainID       = regexp.MustCompile(`(?i)^(id|uuid|guid)$`)
	idNames       = regexp.MustCompile(`(?i)^(id|uuid|guid|((customer|contact|client)_?)(id|number))$`)
	editNames     = regexp.MustCompile(`(?i)^(last_?)?(updated?|modified|changed)(_?(at|on|date|time|datetime|utc|date_?utc))?$`)
	stateNames    = regexp.MustCompile(`(?i)^(is_?)?(active|archived|deleted|inactive|disabled|blocked|barred|status|state|\w+_?status)$`)
	nextNames     = regexp.MustCompile(`(?i)^[@$]?(odata\.)?next(_?(link|page|url|href))?$`)
	moreNames     = regexp.MustCompile(`(?i)^(has_?(more|next)(_?(pages?|items|results))?|more)$`)
	meNames       = regexp.MustCompile(`(?i)^(me|compan(y|ies)|organi[sz]ations?|tenants?|business(es)?|administrations?)$`)
	tokenNames    = regexp.MustCompile(`(?i)^((next|end)_?(page_?)?)?(cursor|token|continuation(_?token)?)$`)
	totalNames    = regexp.MustCompile(`(?i)^[@$]?(total(_?(count|elements|results|resources|items))?|item_?count)$`)
	companyNames  = regexp.MustCompile(`(?i)^(company(_?name)?|organi[sz]ation(_?name)?|(customer|contact|client|display|business)_?name|name)$`)
	bankNames     = regexp.MustCompile(`(?i)iban|bic\b|_bic|bank|card|sepa|balance|amount|password|token`)
)

// NamesCompany reports whether a field of this name usually holds the name of a company.
func NamesCompany(field string) bool { return companyNames.MatchString(field) }

// parameter returns the first parameter of a request whose name fits, and where it stands.
func (d *drafting) parameter(get map[string]any, names *regexp.Regexp) (name, in string) {
	all, _ := get["parameters"].([]any)
	for _, one := range all {
		p := d.at(one)
		name, _ := p["name"].(string)
		if in, _ := p["in"].(string); names.MatchString(name) && (in == "query" || in == "header") {
			return name, in
		}
	}
	return "", ""
}

func fitting(properties map[string]any, names *regexp.Regexp) string {
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		if names.MatchString(name) {
			return name
		}
	}
	return ""
}

// write writes the draft.
func (d *drafting) write(name string, l listed) string {
	var out strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&out, format+"\n", args...) }
	title, _ := d.at(d.root, "info")["title"].(string)
	fields := d.properties(l.row)
	line("# A draft from a description of the API. A value ? is not told there: fill it in. Look at each guess, too.")
	line("profile: 1\nname: %s\ntitle: %s\nproven: {documents: %q, live: never} # the month in which you read the vendor's pages, as 2026-11", name, quote(cmp.Or(title, name)), open)
	own := d.writeBase(line)
	d.writeAuth(line, own)
	company, answer := d.company(l)
	line("tenant: %s", company)
	d.writeList(line, l, fields)
	line("model: {order: %q, paging: %q, changed: %s, deletes: %q, children: %q} # the guide on profiles explains these",
		open, open, cmp.Or(quote(fitting(fields, editNames)), "none"), open, open)
	d.writeRecord(line, fields)
	d.writeFake(line, l, fields, answer)
	return out.String()
}

// writeFake writes the shape of the answers, for the model of the system.
func (d *drafting) writeFake(line func(string, ...any), l listed, fields map[string]any, company string) {
	answer := `"${rows}"`
	if l.records != "$" {
		answer = d.fakeAnswer(l)
	}
	line("fake: # what the answers look like, for the model that a check reads\n  answer: %s\n  tenant: %s # the answer to the request for the company",
		answer, company)
	line("  record: # more fields make the model more like the system")
	id := cmp.Or(fitting(fields, plainID), fitting(fields, idNames))
	for _, part := range []struct{ name, text, number string }{{id, "${id}", "${number}"},
		{fitting(fields, companyNames), "${name}", open}, {fitting(fields, editNames), "${updated}", "${updated}"}} {
		kind, _ := d.at(fields[part.name])["type"].(string)
		if part.name != "" {
			line("    %q: %q", part.name, map[bool]string{true: part.number, false: part.text}[kind == "integer" || kind == "number"])
		}
	}
	if name := fitting(fields, stateNames); name != "" {
		value := cmp.Or(d.stateInFake(name, fields), open)
		if kind, _ := d.at(fields[name])["type"].(string); kind == "boolean" {
			good, other := flagMeans(name)
			value = fmt.Sprintf(`${state == %q}`, map[bool]string{true: "active", false: other}[good])
		}
		line("    %q: '%s'", name, value)
	}
}

// flagMeans says whether a flag is set for the active ones, and what those others are.
func flagMeans(name string) (good bool, other string) {
	name = strings.ToLower(name)
	good = strings.Contains(name, "active") && !strings.Contains(name, "inactive")
	return good, map[bool]string{true: "deleted", false: "archived"}[strings.Contains(name, "deleted")]
}

func quote(s string) string {
	if s == "" {
		return ""
	}
	return fmt.Sprintf("%q", s)
}

// writeBase writes the address, and reports whether it is a setting.
func (d *drafting) writeBase(line func(string, ...any)) (own bool) {
	servers, _ := d.root["servers"].([]any)
	address := ""
	if len(servers) > 0 {
		address, _ = d.at(servers[0])["url"].(string)
	} else if host, _ := d.root["host"].(string); host != "" {
		path, _ := d.root["basePath"].(string)
		address = "https://" + host + path
	}
	if own = !strings.HasPrefix(address, "https://") || strings.Contains(address, "{"); own {
		line("base: ${set.url}%s # guessed: each company has an address of its own",
			strings.TrimSuffix(map[bool]string{true: address}[strings.HasPrefix(address, "/")], "/"))
		return own
	}
	line("base: %s", quote(strings.TrimSuffix(address, "/")))
	return own
}

func (d *drafting) writeAuth(line func(string, ...any), own bool) {
	line("headers: {Accept: application/json}")
	schemes := d.at(d.root, "components", "securitySchemes")
	if schemes == nil {
		schemes = d.at(d.root, "securityDefinitions")
	}
	address := map[bool]string{true: "url: {type: address, required: true, is: The address of the server.}"}[own]
	auth, key := fmt.Sprintf("auth: {kind: %q}", open), ""
	for _, one := range slices.Sorted(maps.Keys(schemes)) {
		s := d.at(schemes[one])
		kind, _ := s["type"].(string)
		in, _ := s["in"].(string)
		header, _ := s["name"].(string)
		scheme, _ := s["scheme"].(string)
		code := d.at(s, "flows", "authorizationCode")
		client := d.at(s, "flows", "clientCredentials")
		switch {
		case kind == "apiKey" && in == "header":
			auth, key = fmt.Sprintf("auth: {kind: header, headers: {%s: \"${secret.api_key}\"}}", header), "yes"
		case kind == "http" && strings.EqualFold(scheme, "bearer"):
			auth, key = `auth: {kind: header, headers: {Authorization: "Bearer ${secret.api_key}"}} # guessed: a fixed token`,
				"yes"
		case code != nil:
			auth, key = fmt.Sprintf("auth: {kind: oauth2-code, authorize: %q, token: %q, scopes: [%q]} # name the scope that may read customers", code["authorizationUrl"], code["tokenUrl"], open), ""
		case client != nil:
			auth, key = fmt.Sprintf("auth: {kind: oauth2-client, token: %q, scopes: [%q]}", client["tokenUrl"], open), ""
		case kind == "oauth2" && s["authorizationUrl"] != nil:
			auth, key = fmt.Sprintf("auth: {kind: oauth2-code, authorize: %q, token: %q, scopes: [%q]}", s["authorizationUrl"],
				cmp.Or(fmt.Sprint(s["tokenUrl"]), open), open), ""
		}
	}
	if key != "" {
		key = "api_key: {type: secret, required: true, is: env:NAME or file:PATH of the key.}"
	}
	if both := strings.Trim(address+", "+key, ", "); both != "" {
		line("settings: {%s}", both)
	}
	line("%s", auth)
}

func (d *drafting) writeList(line func(string, ...any), l listed, fields map[string]any) {
	var query, headers []string
	path := regexp.MustCompile(`\{[^}]*\}`).ReplaceAllStringFunc(l.path, func(hole string) string {
		if strings.Contains(hole, "format") {
			return ".json"
		}
		return "${tenant}"
	})
	add := func(names *regexp.Regexp, value string) bool {
		name, in := d.parameter(l.get, names)
		switch in {
		case "query":
			query = append(query, fmt.Sprintf("%q: %q", name, value))
		case "header":
			headers = append(headers, fmt.Sprintf("%q: %q", name, value))
		}
		return name != ""
	}
	sized := add(sizeNames, "${size}")
	cursor := d.cursor(l)
	number, about := d.pageNumber(l)
	paged := cursor.name != "" && add(cursorNames, "${cursor}") || add(offsetNames, "${offset}") || add(pageNames, number)
	since := fitting(fields, editNames) != "" && add(sinceNames, "${since}")
	more := "add what shows archived records, and a fixed order"
	if add(archivedNames, "true") {
		more = "add a fixed order"
	}
	line("list:\n  path: %s", path)
	if len(query) > 0 {
		line("  query: {%s} # guessed; %s%s", strings.Join(query, ", "), more, about)
	}
	if len(headers) > 0 {
		line("  headers: {%s}", strings.Join(headers, ", "))
	}
	line("  size: %s", d.size(l, sized))
	if since {
		line("  since: %s", d.sinceForm(l))
	}
	line("  records: %q", l.records)
	next, total, goesOn := d.inAnswer(l, nextNames), d.inAnswer(l, totalNames), d.inAnswer(l, moreNames)
	switch {
	case cursor.name != "":
		line("  cursor: %s # guessed", cursor)
	case next.name != "" && !paged:
		line("  next: %s # guessed", next)
	case paged && goesOn.name != "":
		line("  last: not %s # guessed", goesOn)
	case paged:
		line("  last: rows < size # guessed")
	default:
		line("  last: %q # no parameter for pages is described; how does one ask for the next page?", open)
	}
	if total.name != "" {
		line("  total: %s # guessed", total)
	}
}

func (d *drafting) writeRecord(line func(string, ...any), fields map[string]any) {
	line("record:\n  noun: customer\n  id: %s", cmp.Or(fitting(fields, plainID), fitting(fields, idNames), quote(open)))
	if edited := fitting(fields, editNames); edited != "" {
		form := fmt.Sprintf("[%q] # as %s, ms-date, unix or unix-ms", open, time.RFC3339)
		if known := timeForm(d.at(fields[edited]), nil); known != "" {
			form = fmt.Sprintf("[%q] # guessed", known)
		}
		line("  updated: %s\n  times: %s", edited, form)
	}
	d.writeStates(line, fields)
	line("  fields:")
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if f := d.field(name, d.at(fields[name]), 0); f != "" {
			line("    - %s", f)
		}
	}
}

func (d *drafting) writeStates(line func(string, ...any), fields map[string]any) {
	name := fitting(fields, stateNames)
	schema := d.at(fields[name])
	values, _ := schema["enum"].([]any)
	switch kind, _ := schema["type"].(string); {
	case name == "":
		line("  states: [{when: %q, is: active}] # no field for it is described", open)
	case kind == "boolean":
		good, other := flagMeans(name)
		line("  states: # guessed; look for further fields of this kind\n    - {when: %s == %t, is: %s}\n    - {when: %s == %t, is: active}", name, !good, other, name, good)
	case len(values) > 0:
		line("  states:")
		for _, v := range values {
			line("    - {when: '%s == %q', is: %s} # %sactive, archived or deleted", name, fmt.Sprint(v),
				cmp.Or(stateCalled(v), quote(open)), map[bool]string{true: "guessed: "}[stateCalled(v) != ""])
		}
	default:
		about, _ := schema["description"].(string)
		line("  states: [{when: '%s == %q', is: active}] # %s", name, open, strings.Join(strings.Fields(about), " "))
	}
}

// deepestField is the depth of the deepest fields in a draft. A schema may contain itself.
const deepestField = 2

// field writes the declaration of a field; "" for one that no mapping may read, or that is too deep.
func (d *drafting) field(name string, schema map[string]any, depth int) string {
	if depth > deepestField {
		return ""
	}
	kind, _ := schema["type"].(string)
	inner := d.properties(schema)
	if kind == "array" {
		inner = d.properties(d.at(schema, "items"))
	}
	var parts []string
	for _, sub := range slices.Sorted(maps.Keys(inner)) {
		if f := d.field(sub, d.at(inner[sub]), depth+1); f != "" {
			parts = append(parts, f)
		}
	}
	kinds := map[string]string{"integer": "number", "number": "number", "boolean": "flag", "array": "list",
		"object": "object"}
	switch kind = kinds[kind]; {
	case bankNames.MatchString(name), kind == "object" && len(parts) == 0:
		return ""
	case idNames.MatchString(name):
		kind = ""
	case len(parts) > 0 && kind != "list":
		kind = "object"
	}
	out := fmt.Sprintf("name: %q", name)
	if kind != "" {
		out += ", type: " + kind
	}
	if len(parts) > 0 {
		out += ", fields: [" + strings.Join(parts, ", ") + "]"
	}
	return "{" + out + "}"
}

// stillOpen reports each value of a profile that a person must fill in.
func stillOpen(name string, data []byte) error {
	var tree yaml.Node
	if yaml.Unmarshal(data, &tree) != nil {
		return nil // the loader says what is wrong
	}
	lines := strings.Split(string(data), "\n")
	var problems []strict.Problem
	var look func(node *yaml.Node, key string)
	look = func(node *yaml.Node, key string) {
		if node.Kind == yaml.ScalarNode && (node.Value == open || strings.Contains(node.Value, `"`+open+`"`)) {
			problems = append(problems,
				strict.Problem{File: name, Line: node.Line, Column: node.Column, Width: len(node.Value) + 2,
					Source:  lines[node.Line-1],
					Message: key + " is still open: the description of the API does not tell it. Write it in place of the ?"})
		}
		for i, child := range node.Content {
			below := key
			if node.Kind == yaml.MappingNode {
				if i%2 == 0 {
					continue
				}
				below = strings.TrimPrefix(key+"."+node.Content[i-1].Value, ".")
			}
			look(child, below)
		}
	}
	look(&tree, "")
	return strict.NewError(problems)
}
