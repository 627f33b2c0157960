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
	TokenAuth       string   `yaml:"token_auth"`        // form | basic: how the client id and secret reach the token endpoint
	APIAuth         string   `yaml:"api_auth"`          // client_credentials | authorization_code | static: whose token customers and mandates want
	List            List     `yaml:"list"`              // how customers are listed
	PersonFields    string   `yaml:"person_fields"`     // short: name, phone | long: firstName, lastName, phoneNo
	AddressFields   string   `yaml:"address_fields"`    // short: line1, postCode | long: addressLine1, postalCode, country
	ExternalData    string   `yaml:"external_data"`     // map | list of {key, value} | object {connectorType, id}
	Update          string   `yaml:"update"`            // body_id: PUT /customers | path_id: PUT /customers/{id}
	MandateLink     string   `yaml:"mandate_link"`      // auto | put | get
	LinkWhenCreated string   `yaml:"link_when_created"` // unknown | same | new: the mandate that another request gives while one waits for a signature
	Cancel          string   `yaml:"cancel"`            // colon | slash | query | body
	WebhookSetup    string   `yaml:"webhook_setup"`     // subscribe | digest_auth_subscribe
	WebhookRead     string   `yaml:"webhook_read"`      // auto: GET /apps/{client_id}/webhooks is tried | none: it is not asked
	ReadOnly        []string `yaml:"read_only"`         // never sent back; people.x and addresses.x name members of the elements
}

// List says how the list of customers is paged.
type List struct {
	PageParam string `yaml:"page_param"`
	SizeParam string `yaml:"size_param"`
	FirstPage string `yaml:"first_page"` // auto | 0 | 1
	Size      int    `yaml:"size"`       // customers asked for per page, 1 to 1000
	Envelope  string `yaml:"envelope"`   // auto | array | the key that holds the array
}

// Standard returns the profile that follows from the interface alone.
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
		WebhookSetup:    "subscribe",
		WebhookRead:     "auto",
		ReadOnly:        []string{"directDebitMandate", "timezone"},
	}
}

// Adfin returns the profile that follows the public documentation of the service
// whose shapes the interface has (README.md#open-points).
func Adfin() Dialect {
	d := Standard()
	d.APIAuth = "authorization_code"
	d.List.PageParam, d.List.SizeParam = "page", "size"
	d.PersonFields, d.AddressFields = "long", "long"
	d.ExternalData = "object"
	d.MandateLink = "put"
	d.LinkWhenCreated = "same"
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

// Profile returns the named profile. An unknown name is an error that lists the
// known ones.
func Profile(name string) (Dialect, error) {
	if profile, ok := profiles[name]; ok {
		return profile(), nil
	}
	return Dialect{}, fmt.Errorf("billing.profile: there is no profile %q; use standard, adfin or sandbox", name)
}

// Validate reports every setting whose value is not one of those allowed, one
// per line, by its key in the configuration.
func (d Dialect) Validate() error {
	var problems []error
	oneOf := func(key, value string, allowed ...string) {
		if !slices.Contains(allowed, value) {
			problems = append(problems, fmt.Errorf("dialect.%s: %q is not allowed; use %s", key, value, strings.Join(allowed, ", ")))
		}
	}
	oneOf("token_auth", d.TokenAuth, "form", "basic")
	oneOf("api_auth", d.APIAuth, "client_credentials", "authorization_code", "static")
	oneOf("list.first_page", d.List.FirstPage, "auto", "0", "1")
	oneOf("person_fields", d.PersonFields, "short", "long")
	oneOf("address_fields", d.AddressFields, "short", "long")
	oneOf("external_data", d.ExternalData, "map", "list", "object")
	oneOf("update", d.Update, "body_id", "path_id")
	oneOf("mandate_link", d.MandateLink, "auto", "put", "get")
	oneOf("link_when_created", d.LinkWhenCreated, "unknown", "same", "new")
	oneOf("cancel", d.Cancel, "colon", "slash", "query", "body")
	oneOf("webhook_setup", d.WebhookSetup, "subscribe", "digest_auth_subscribe")
	oneOf("webhook_read", d.WebhookRead, "auto", "none")
	return errors.Join(append(problems, d.List.validate(), d.validateReadOnly())...)
}

const maxPageSize = 1000

func (l List) validate() error {
	var problems []error
	for key, value := range map[string]string{"page_param": l.PageParam, "size_param": l.SizeParam, "envelope": l.Envelope} {
		if strings.TrimSpace(value) == "" {
			problems = append(problems, fmt.Errorf("dialect.list.%s: it is blank; give a name", key))
		}
	}
	if l.PageParam != "" && l.PageParam == l.SizeParam {
		problems = append(problems, fmt.Errorf("dialect.list.size_param: it is %q like page_param; give each its own name", l.SizeParam))
	}
	if l.Size < 1 || l.Size > maxPageSize {
		problems = append(problems, fmt.Errorf("dialect.list.size: %d is out of range; use 1 to %d", l.Size, maxPageSize))
	}
	slices.SortFunc(problems, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(problems...)
}

// validateReadOnly refuses to call read-only what an update must be able to say.
func (d Dialect) validateReadOnly() error {
	var problems []error
	for _, field := range d.ReadOnly {
		switch list, member, nested := strings.Cut(field, "."); {
		case slices.Contains([]string{"", "id", "name", "people", "addresses", "externalData"}, field):
			problems = append(problems, fmt.Errorf("dialect.read_only: %q cannot be read-only; name a field that the service computes", field))
		case nested && (list != "people" && list != "addresses" || member == "" || strings.Contains(member, ".")):
			problems = append(problems, fmt.Errorf("dialect.read_only: %q is not understood; name a field, or people.FIELD or addresses.FIELD", field))
		}
	}
	return errors.Join(problems...)
}
