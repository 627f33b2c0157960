package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"payersync/cmd/payersync/internal/show"
	"payersync/connector"
	"payersync/connector/accounting/csvfile"
	"payersync/connector/sandbox"
	"payersync/connector/syncer"
)

// shownRows is the number of imperfect rows reported individually.
const shownRows = 20

// rowsBetween is how many rows are taken between two looks at how far it is.
const rowsBetween = 100

// columnsOfCustomers are the headings of a customer's fields, without case, blanks and underlines.
var columnsOfCustomers = map[string][]string{
	"name":     {"name", "customer", "customername", "companyname", "company", "contactname", "kunde", "firma"},
	"email":    {"email", "e-mail", "emailaddress"},
	"phone":    {"phone", "phonenumber", "telephone", "telefon"},
	"line1":    {"line1", "addressline1", "street", "address", "strasse", "straße"},
	"line2":    {"line2", "addressline2"},
	"city":     {"city", "town", "ort", "stadt"},
	"postCode": {"postcode", "postalcode", "zip", "plz"},
	"country":  {"country", "countrycode", "land"},
	"mandate":  {"mandate", "mandatestatus"},
	"key":      {"key", "externalid", "accountnumber", "customernumber", "kundennummer"},
}

// roster is the columns of a file of customers.
type roster struct {
	at      map[string]int // the column of each of columnsOfCustomers
	pairs   map[int]string // columns of externalData, with their names
	ignored []string
}

func rosterOf(columns []string) roster {
	r := roster{at: map[string]int{}, pairs: map[int]string{}}
	for i, heading := range columns {
		plain := strings.NewReplacer(" ", "", "_", "").Replace(strings.ToLower(strings.TrimSpace(heading)))
		if name, external := strings.CutPrefix(plain, "externaldata."); external && name != "" {
			trimmed := strings.TrimSpace(heading)
			r.pairs[i] = strings.TrimSpace(trimmed[strings.Index(trimmed, ".")+1:])
			continue
		}
		known := ""
		for field, headings := range columnsOfCustomers {
			if _, taken := r.at[field]; !taken && slices.Contains(headings, plain) {
				known = field
			}
		}
		switch known {
		case "":
			r.ignored = append(r.ignored, heading)
		case "key":
			r.at[known], r.pairs[i] = i, "key"
		default:
			r.at[known] = i
		}
	}
	return r
}

func (r roster) cell(row []string, field string) string {
	if i, there := r.at[field]; there {
		return strings.TrimSpace(row[i])
	}
	return ""
}

// customer returns the row as the service's JSON, with its keys as one text, for counting repeated ones.
func (r roster) customer(row []string) (raw json.RawMessage, keys string) {
	out := map[string]any{"name": r.cell(row, "name")}
	person, address, external := map[string]string{}, map[string]string{}, map[string]string{}
	for _, field := range []string{"email", "phone"} {
		if v := r.cell(row, field); v != "" {
			person[field] = v
		}
	}
	for _, field := range []string{"line1", "line2", "city", "postCode", "country"} {
		if v := r.cell(row, field); v != "" {
			address[field] = v
		}
	}
	for i, name := range r.pairs {
		if v := strings.TrimSpace(row[i]); v != "" {
			external[name] = v
		}
	}
	if len(person) > 0 {
		person["name"] = r.cell(row, "name")
		out["people"] = []any{person}
	}
	if len(address) > 0 {
		out["addresses"] = []any{address}
	}
	if len(external) > 0 {
		out["externalData"] = external
		text, _ := json.Marshal(external) // strings, in the order of their names
		keys = string(text)
	}
	raw, _ = json.Marshal(out) // strings
	return raw, keys
}

// beginWith gives the sandbox the customers of a CSV file, and says of every row what
// could not be taken; nothing without a file.
func (a *app) beginWith(ctx context.Context, model *sandbox.Sandbox, path string) error {
	if path == "" {
		return nil
	}
	found, err := csvfile.Sniff(ctx, path)
	if err != nil {
		return fmt.Errorf("the sandbox cannot start with customers: %w", err)
	}
	r := rosterOf(found.Columns)
	if _, named := r.at["name"]; !named {
		return fmt.Errorf("the sandbox cannot start with customers: %s has no column with their names; give it the heading name", path)
	}
	if len(r.ignored) > 0 {
		a.Print("Not read of %s: the columns %s.", path, strings.Join(r.ignored, ", "))
	}
	progress := show.NewProgress(a.ErrOut, a.now)
	begun, err := begin(ctx, model, r, found, func(done int) {
		progress.Show(syncer.Progress{Stage: "begin", Done: done, Total: len(found.Rows)})
	})
	progress.End()
	if err != nil {
		return err
	}
	for i, why := range begun.problems {
		if i == shownRows {
			a.Print("… and %s more.", connector.Plural(len(begun.problems)-shownRows, "row"))
			break
		}
		a.Print("%s", why)
	}
	for _, why := range found.Bad {
		a.Print("Not taken: %s", why)
	}
	if found.Stray != "" {
		a.Print("Warning: the file makes no sense from here on, and its rest is not taken: %s.", found.Stray)
	}
	if rest := found.Count - found.Unfit - len(found.Rows); rest > 0 {
		a.Print("Warning: not taken behind the first %[2]d: %[1]s.", connector.Plural(rest, "row"), len(found.Rows))
	}
	if n := len(found.Footer); n > 0 {
		a.Print("Not taken, at the end and like totals: %s.", connector.Plural(n, "row"))
	}
	a.Print("At the start there %s: %d with a mandate, %d without a key, %d with a key of another customer too. Rows not loaded: %d.",
		map[bool]string{true: "is ", false: "are "}[begun.customers == 1]+connector.Plural(begun.customers, "customer"),
		begun.mandates, begun.keyless, begun.twice, begun.left+found.Unfit)
	return nil
}

// beginnings count the results of a file's rows.
type beginnings struct {
	customers, mandates, keyless, twice, left int
	problems                                  []string
}

// begin creates the customers, and reports its progress every so many rows.
func begin(ctx context.Context, model *sandbox.Sandbox, r roster, found *csvfile.Findings,
	tell func(done int)) (b beginnings, err error) {
	seen := map[string]bool{}
	for i, row := range found.Rows {
		if i%rowsBetween == 0 {
			if err := ctx.Err(); err != nil {
				return b, err
			}
			tell(i)
		}
		if r.cell(row, "name") == "" {
			b.left++
			b.problems = append(b.problems, fmt.Sprintf("Not taken: line %d has no name.", found.Lines[i]))
			continue
		}
		status := connector.MandateStatus(strings.ToUpper(r.cell(row, "mandate")))
		switch status {
		case "", connector.MandateCreated, connector.MandatePending, connector.MandateActive, connector.MandateCancelled:
		default:
			b.problems = append(b.problems,
				fmt.Sprintf("Without its mandate: the status in line %d is not known; use CREATED, PENDING, ACTIVE or CANCELLED.",
					found.Lines[i]))
			status = ""
		}
		raw, keys := r.customer(row)
		_, _ = model.Begin(raw, status) // built by json
		b.customers++
		if status != "" {
			b.mandates++
		}
		switch {
		case keys == "":
			b.keyless++
		case seen[keys]:
			b.twice++
		}
		seen[keys] = true
	}
	return b, nil
}
