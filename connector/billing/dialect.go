package billing

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Dialect settles the open points of the service's interface, one setting each. It
// is pure data and holds no secret. README.md#open-points has the reasons.
type Dialect struct {
	// form | basic: how the client id and secret reach the token endpoint
	TokenAuth string `yaml:"token_auth"`
	// client_credentials | authorization_code | static: whose token customers and mandates want
	APIAuth      string `yaml:"api_auth"`
	List         List   `yaml:"list"`          // how customers are listed
	PersonFields string `yaml:"person_fields"` // short: name, phone | long: firstName, lastName, phoneNo
	// the member of a person that says whether this is the primary contact; "" where it is not known
	PersonPrimary string `yaml:"person_primary"`
	// the member that says whether the service writes to the person; "" where it is not known
	PersonComms string `yaml:"person_communication"`
	// short: line1, postCode | long: addressLine1, postalCode, country
	AddressFields string `yaml:"address_fields"`
	ExternalData  string `yaml:"external_data"` // map | list of {key, value} | object {connectorType, id}
	Update        string `yaml:"update"`        // body_id: PUT /customers | path_id: PUT /customers/{id}
	MandateLink   string `yaml:"mandate_link"`  // auto | put | get
	// unknown | same | new: the mandate that another request gives while one waits for a signature
	LinkWhenCreated string `yaml:"link_when_created"`
	// the path of the signing link in the answer to a create, beside the mandate that it made; "" where none is taken
	// from there
	CreateLink string `yaml:"create_link"`
	Cancel     string `yaml:"cancel"` // colon | slash | query | body
	// none: the service has no such call | colon | slash | query | body: as cancel
	Reinstate    string `yaml:"reinstate"`
	WebhookSetup string `yaml:"webhook_setup"` // subscribe | digest_auth_subscribe
	// auto: GET /apps/{client_id}/webhooks is tried | none: it is not asked
	WebhookRead string `yaml:"webhook_read"`
	// the path of the financial status in a customer's answer; "" where it is not known or not wanted
	FinancialStatus string `yaml:"financial_status"`
	// the query parameter that asks for it when one customer is read; "" where it comes unasked
	FinancialQuery string `yaml:"financial_query"`
	// never sent back; people.x and addresses.x name members of the elements
	ReadOnly []string `yaml:"read_only"`
}

// List says how the list of customers is paged.
type List struct {
	PageParam string `yaml:"page_param"`
	SizeParam string `yaml:"size_param"`
	FirstPage string `yaml:"first_page"` // auto | 0 | 1
	Size      int    `yaml:"size"`       // customers asked for per page, 1 to 1000
	Envelope  string `yaml:"envelope"`   // auto | array | the key that holds the array
	// the query parameter that asks for financial_status; "" where lists are not asked for it
	FinancialQuery string `yaml:"financial_query"`
}

// Standard returns the profile defined by the interface alone.
func Standard() Dialect {
	return Dialect{
		TokenAuth:       "form",
		APIAuth:         "client_credentials",
		List:            List{PageParam: "Page", SizeParam: "Size", FirstPage: "auto", Size: 100, Envelope: "auto"},
		PersonFields:    "short",
		AddressFields:   "short",
		ExternalData:    "map",
		Update:          "body_id",
		MandateLink:     "auto",
		LinkWhenCreated: "unknown",
		Cancel:          "colon",
		Reinstate:       "none",
		WebhookSetup:    "subscribe",
		WebhookRead:     "auto",
		FinancialQuery:  "includeCustomerFinancialDetails",
		ReadOnly:        []string{"directDebitMandate", "timezone"},
	}
}

// Adfin returns the profile of the public documentation of the service with these request and answer shapes
// (README.md#open-points).
func Adfin() Dialect {
	d := Standard()
	d.APIAuth = "authorization_code"
	d.List.PageParam, d.List.SizeParam = "page", "size"
	d.List.FinancialQuery = d.FinancialQuery
	d.PersonFields, d.AddressFields = "long", "long"
	d.PersonPrimary, d.PersonComms = "isPrimaryContact", "isIncludedInCommunications"
	d.ExternalData = "object"
	d.MandateLink = "put"
	d.LinkWhenCreated = "same"
	d.Reinstate = "colon"
	d.WebhookSetup = "digest_auth_subscribe"
	d.ReadOnly = append(d.ReadOnly, "creationTime", "lastUpdatedTime",
		"people.validForEmailCommunication", "people.validForPhoneCommunication")
	return d
}

// Sandbox returns the profile of the sandbox as it comes. Its switches can be
// turned to every other value of every setting.
func Sandbox() Dialect { return Standard() }

// profiles holds every profile by its name in the configuration.
var profiles = map[string]func() Dialect{"standard": Standard, "adfin": Adfin, "sandbox": Sandbox}

// Profile returns the named profile. For an unknown name, the error lists the known ones.
func Profile(name string) (Dialect, error) {
	if profile, ok := profiles[name]; ok {
		return profile(), nil
	}
	return Dialect{}, fmt.Errorf("billing.profile: there is no profile %q; use standard, adfin or sandbox", name)
}

// Validate reports every setting with an invalid value, one per line, by its configuration key.
func (d Dialect) Validate() error {
	var problems []error
	for _, p := range points {
		if value := *p.at(&d); len(p.values) > 0 && !slices.Contains(p.values, value) {
			problems = append(problems,
				fmt.Errorf("dialect.%s: %q is not allowed; use %s", p.name, value, strings.Join(p.values, ", ")))
		}
	}
	return errors.Join(append(problems, d.List.validate(), d.validateReadOnly(), d.validateFlags(), d.validateFinancial(),
		d.validateCreateLink())...)
}

// The flags of a contact, by their mapping names, and the settings for their member names.
const (
	flagPrimary    = "primary"
	flagComms      = "communication"
	settingPrimary = "dialect.person_primary"
	settingComms   = "dialect.person_communication"
)

// Unnamed returns the flags of contacts without a configured member name, with the settings to name them. A mapping
// with such a flag is refused.
func (d Dialect) Unnamed() map[string]string {
	out := map[string]string{}
	if d.PersonPrimary == "" {
		out[flagPrimary] = "billing." + settingPrimary
	}
	if d.PersonComms == "" {
		out[flagComms] = "billing." + settingComms
	}
	return out
}

// validateFlags refuses a flag with the name of another person member or of a read-only one.
func (d Dialect) validateFlags() error {
	var problems []error
	for setting, member := range map[string]string{settingPrimary: d.PersonPrimary, settingComms: d.PersonComms} {
		switch {
		case member == "":
		case strings.TrimSpace(member) != member || strings.ContainsAny(member, ".\"'"):
			problems = append(problems,
				fmt.Errorf("%s: %q is no name of a member; give it as the service spells it", setting, member))
		case slices.Contains([]string{"id", "name", "firstName", "lastName", "email", "phone", "phoneNo"}, member):
			problems = append(problems,
				fmt.Errorf("%s: %q is another member of a person; give the one that is true or false", setting, member))
		case slices.Contains(d.ReadOnly, ownPeople+"."+member):
			problems = append(problems,
				fmt.Errorf("%s: %q is read-only by dialect.read_only; take it out of one of them", setting, member))
		}
	}
	if d.PersonPrimary != "" && d.PersonPrimary == d.PersonComms {
		problems = append(problems,
			fmt.Errorf("%s: it is %q like person_primary; give each its own name", settingComms, d.PersonComms))
	}
	slices.SortFunc(problems, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(problems...)
}

const maxPageSize = 1000

func (l List) validate() error {
	var problems []error
	for key, value := range map[string]string{"page_param": l.PageParam, "size_param": l.SizeParam,
		"envelope": l.Envelope} {
		if strings.TrimSpace(value) == "" {
			problems = append(problems, fmt.Errorf("dialect.list.%s: it is blank; give a name", key))
		}
	}
	if l.PageParam != "" && l.PageParam == l.SizeParam {
		problems = append(problems,
			fmt.Errorf("dialect.list.size_param: it is %q like page_param; give each its own name", l.SizeParam))
	}
	if l.Size < 1 || l.Size > maxPageSize {
		problems = append(problems, fmt.Errorf("dialect.list.size: %d is out of range; use 1 to %d", l.Size, maxPageSize))
	}
	slices.SortFunc(problems, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(problems...)
}

// validateReadOnly refuses read_only for members that updates need.
func (d Dialect) validateReadOnly() error {
	var problems []error
	for _, field := range d.ReadOnly {
		switch list, member, nested := strings.Cut(field, "."); {
		case slices.Contains([]string{"", "id", "name", "people", "addresses", "externalData"}, field):
			problems = append(problems,
				fmt.Errorf("dialect.read_only: %q cannot be read-only; name a field that the service computes", field))
		case nested && (list != "people" && list != "addresses" || member == "" || strings.Contains(member, ".")):
			problems = append(problems,
				fmt.Errorf("dialect.read_only: %q is not understood; name a field, or people.FIELD or addresses.FIELD", field))
		}
	}
	return errors.Join(problems...)
}
