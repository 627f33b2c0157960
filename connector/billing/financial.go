package billing

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"payersync/connector"
)

// statusShape matches a financial status: one word in any spelling. Amounts, account numbers and sentences do not
// match, regardless of the path.
var statusShape = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,47}$`)

// financialOf returns the financial status in an answer, unchanged; "" if there is none, and then it is unknown.
func (d Dialect) financialOf(o object) string {
	if d.FinancialStatus == "" {
		return ""
	}
	if word := o.at(d.FinancialStatus); statusShape.MatchString(word) && !longNumber.MatchString(word) {
		return word
	}
	return ""
}

// validateFinancial refuses a path unfit for a status. It also refuses a status at risk of being sent back: if it comes
// without request, updates see it too.
func (d Dialect) validateFinancial() error {
	var problems []error
	for setting, name := range map[string]string{"financial_query": d.FinancialQuery,
		"list.financial_query": d.List.FinancialQuery} {
		switch {
		case name == "":
		case strings.ContainsFunc(name,
			func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune("?&=#\"'", r) }):
			problems = append(problems,
				fmt.Errorf("dialect.%s: %q is no name of a query parameter; give it as the service spells it", setting, name))
		case slices.Contains([]string{d.List.PageParam, d.List.SizeParam, searchText}, name):
			problems = append(problems,
				fmt.Errorf("dialect.%s: %q is another parameter of the list; give the one that asks for financial details", setting,
					name))
		}
	}
	slices.SortFunc(problems, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	const setting = "dialect.financial_status"
	root, _, _ := strings.Cut(d.FinancialStatus, ".")
	switch {
	case d.FinancialStatus == "":
	case !isPath(d.FinancialStatus):
		problems = append(problems,
			fmt.Errorf("%s: %q is no path; give names of members with dots between them, for example financialDetails.financialStatus", setting, d.FinancialStatus))
	case slices.Contains([]string{"id", ownName, ownPeople, ownAddresses, "externalData", "directDebitMandate",
		"timezone"}, root):
		problems = append(problems,
			fmt.Errorf("%s: %q holds something else; give where the service puts the financial status", setting, root))
	case d.FinancialQuery == "" && !slices.Contains(d.ReadOnly, root):
		problems = append(problems,
			fmt.Errorf("%s: %q comes unasked (financial_query is blank), so an update would send it back; add it to dialect.read_only, or name the parameter that asks for it", setting, root))
	}
	return errors.Join(problems...)
}

// Watcher is the client for callers without writes: it also requests the financial status. Reads around an update do
// not, so its members are never sent back, nor taken for other people's edits.
type Watcher struct{ *Client }

// Customer is Client.Customer, with the financial status if the dialect names it.
func (w Watcher) Customer(ctx context.Context, id string) (connector.RemoteCustomer, error) {
	out, err := w.fetch(ctx, id, w.dialect.financial(w.dialect.FinancialQuery))
	switch statusOf(err) {
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		if w.dialect.FinancialStatus != "" {
			return out, advise(err, "compare billing.dialect.financial_query with what it documents, or leave financial_status blank")
		}
	}
	return out, err
}

// financial returns the query for the financial status; nil if not wanted.
func (d Dialect) financial(parameter string) url.Values {
	if d.FinancialStatus == "" || parameter == "" {
		return nil
	}
	return url.Values{parameter: {"true"}}
}
