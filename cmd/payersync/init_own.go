package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"payersync/connector"
	"payersync/connector/accounting/httpsource"
)

// isOwnProfile reports whether a value of --source is the file of a user's own profile.
func isOwnProfile(source string) bool { return strings.ContainsAny(source, "./\\") }

// withOwnProfile adds the profile's file to those of a set-up, unless it is in the folder already.
func withOwnProfile(shipped []firstFile, dir, file string) ([]firstFile, error) {
	at := filepath.Join(dir, filepath.Base(file))
	if there, err1 := os.Stat(at); err1 == nil {
		if given, err2 := os.Stat(file); err2 == nil && os.SameFile(there, given) {
			return shipped, nil
		}
	}
	data, err := os.ReadFile(file) //nolint:gosec // the user names it
	if err != nil {
		return nil, fmt.Errorf("read the profile: %w", err)
	}
	return append(shipped, firstFile{filepath.Base(file), data}), nil
}

// The names of fields in a profile, by what they hold, in the order of trust.
var (
	plainField   = regexp.MustCompile(`^[A-Za-z_]\w*$`)
	firstField   = regexp.MustCompile(`(?i)^(first(_?name)?|given_?name|fname|forename)$`)
	lastField    = regexp.MustCompile(`(?i)^(last(_?name)?|family_?name|surname|lname)$`)
	emailField   = regexp.MustCompile(`(?i)e?-?mail`)
	phoneField   = regexp.MustCompile(`(?i)phone|^mobile|^tel`)
	streetField  = regexp.MustCompile(`(?i)^(p_)?(address_?(line_?)?1?|street1?|line1)$`)
	cityField    = regexp.MustCompile(`(?i)^(p_)?(city|town)$`)
	postField    = regexp.MustCompile(`(?i)^(p_)?(zip(_?code)?|post(al)?_?code|code)$`)
	customerFlag = regexp.MustCompile(`(?i)^is_?(customer|client|debtor)$`)
	supplierFlag = regexp.MustCompile(`(?i)^is_?(supplier|vendor|creditor)$`)
	countryField = regexp.MustCompile(`(?i)^(p_)?country(_?code)?$`)
)

// firstText returns the first field of type text whose name fits, as an expression; "" for none.
func firstText(fields []connector.Field, fits func(string) bool) string {
	for _, f := range fields {
		if (f.Type == connector.TypeText || f.Type == "") && plainField.MatchString(f.Name) && fits(f.Name) {
			return f.Name
		}
	}
	return ""
}

// draftInclude proposes which records are customers, by a flag; "" for all.
func draftInclude(fields []connector.Field) string {
	for _, f := range fields {
		switch {
		case f.Type != connector.TypeFlag || !plainField.MatchString(f.Name):
		case customerFlag.MatchString(f.Name):
			return "include: " + f.Name + "\n"
		case supplierFlag.MatchString(f.Name):
			return "include: not " + f.Name + "\n"
		}
	}
	return ""
}

// draftMapping proposes a mapping for the fields of a profile, by their names.
func draftMapping(p *httpsource.Profile) string {
	first := func(fits func(string) bool) string { return firstText(p.Fields(), fits) }
	inside := func(fits func(string) bool) string { // an object such as address may hold it
		for _, f := range p.Fields() {
			if part := firstText(f.Fields, fits); part != "" && f.Type == connector.TypeObject && plainField.MatchString(f.Name) {
				return f.Name + "." + part
			}
		}
		return ""
	}
	place := func(fits func(string) bool) string { return cmp.Or(first(fits), inside(fits)) }
	id := cmp.Or(p.IDField(), p.Fields()[0].Name)
	person := ""
	if a, b := place(firstField.MatchString), place(lastField.MatchString); a != "" && b != "" {
		person = fmt.Sprintf(`join([%s, %s], " ")`, a, b)
	}
	name, contact := cmp.Or(first(httpsource.NamesCompany), person, id), cmp.Or(person, first(httpsource.NamesCompany), id)
	if name != contact {
		name, contact = fmt.Sprintf("coalesce(%s, %s)", name, contact), fmt.Sprintf("coalesce(%s, %s)", contact, name)
	}
	var out strings.Builder
	fmt.Fprintf(&out, "# A proposal by the names of the fields. Look at each line: payersync source --try quickstart shows the result.\nversion: 1\nsource: %s\n\nkey: {%sId: %s}\nscope: tenant\n%s\ncustomer:\n  name: %s\n  people:\n    - name: %s\n",
		p.Name(), strings.ReplaceAll(p.Name(), "-", ""), id, draftInclude(p.Fields()), name, contact)
	if email := place(emailField.MatchString); email != "" {
		fmt.Fprintf(&out, "      email: lower(firstEmail(%s))\n", email)
	}
	if phone := place(phoneField.MatchString); phone != "" {
		fmt.Fprintf(&out, "      phone: phone(%s)\n", phone)
	}
	if street := place(streetField.MatchString); street != "" {
		fmt.Fprintf(&out, "  addresses:\n    - line1: %s\n", street)
		for _, part := range []struct{ key, field, as string }{{"city", place(cityField.MatchString), "%s"},
			{"postCode", place(postField.MatchString), "%s"}, {"country", place(countryField.MatchString), "country(%s)"}} {
			if part.field != "" {
				fmt.Fprintf(&out, "      %s: "+part.as+"\n", part.key, part.field)
			}
		}
	}
	out.WriteString("\n# Everybody with an e-mail address is asked.\nmandate:\n  request: any(customer.people, .email != \"\")\n")
	return out.String()
}
