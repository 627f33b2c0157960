package sandbox

import (
	"errors"
	"time"

	"payersync/connector"
)

// Switches holds one setting for each open point of the interface (billing/README.md#open-points). The zero
// value of every field fits the dialect profile standard: of several words, it is the first. Standard returns
// them written out, Adfin the public reading.
type Switches struct {
	// how the token endpoint takes the client's credentials: form | basic | any
	TokenAuth string `yaml:"token_auth"`
	// expires_in as raw JSON, for example 0, -1 or "3600"; "omit" leaves it out; "" is the true life in seconds
	ExpiresIn string `yaml:"expires_in"`
	// token kinds accepted for customers and mandates: any | client_credentials | authorization_code
	APITokens        string `yaml:"api_tokens"`
	WrongTokenStatus int    `yaml:"wrong_token_status"` // for a token of the wrong kind: 403, 401 or 400

	List List `yaml:"list"`

	// spelling of people in customer answers: short (name, phone) | long (firstName, lastName, phoneNo)
	PersonFields string `yaml:"person_fields"`
	// spelling of addresses in customer answers: short (line1, postCode) | long (addressLine1, postalCode)
	AddressFields string `yaml:"address_fields"`
	// shape in answers: map | list ({key, value}) | object ({connectorType, id}, more than one pair as array) | array
	// (of such objects)
	ExternalData  string `yaml:"external_data"`
	CustomerTimes bool   `yaml:"customer_times"` // customers carry creationTime and lastUpdatedTime, owned by the service
	Times         string `yaml:"times"`          // spelling of times: rfc3339 | utc (…UTC for Z) | zoneless

	// signing in a create's answer: url (an address, no mandate yet) | none | mandate (with a mandate in CREATED)
	CreateLink string `yaml:"create_link"`
	// the create answer leaves externalData out
	CreateHidesExternalData bool `yaml:"create_hides_external_data"`
	// how long the hash of a create body is remembered: 0 for ever, negative not at all
	HashMemory time.Duration `yaml:"hash_memory"`
	// a replayed create of a deleted customer answers the dead id
	HashOutlivesDelete bool `yaml:"hash_outlives_delete"`
	// for refused bodies: 422, or 400
	ValidationStatus int `yaml:"validation_status"`
	// body_id (PUT /customers) | path_id (PUT /customers/{id}) | both
	Update string `yaml:"update"`
	// body of update and cancel answers: object | empty
	WriteAnswer string `yaml:"write_answer"`
	// for a method turned off by a switch: 405, 404 or 501
	RefusedMethodStatus int `yaml:"refused_method_status"`
	// directDebitMandate of a customer without one: absent | object ({}) | null
	EmptyMandate string `yaml:"empty_mandate"`
	// the place of a bank's reason: mandate (the full answer alone) | summary (the customer's directDebitMandate too)
	FailureReason string `yaml:"failure_reason"`
	// lastUpdatedTime of mandate summaries: exact | coarse (whole minutes, so times may be equal) | missing
	MandateTimes string `yaml:"mandate_times"`
	// methods of the link call: both | put | get (with body) | put_list (GET lists the customer's mandates)
	MandateLink string `yaml:"mandate_link"`
	// link call in CREATED: same | renewed (the same mandate, a link of its own for each call; the earlier ones expire)
	// | new (another mandate)
	LinkWhenCreated string `yaml:"link_when_created"`
	// a replaced mandate in CREATED: open (it stays, and can be signed) | cancelled
	ReplacedMandate string `yaml:"replaced_mandate"`
	// how long a link can be opened, then a call in CREATED renews it; 0 is for ever
	LinkLife time.Duration `yaml:"link_life"`
	// statuses of the latest mandate with a refused link call (400)
	LinkRefused []connector.MandateStatus `yaml:"link_refused"`
	// the effect of ChangeBank: new (a mandate in PENDING, the old one CANCELLED) | sign (the same in CREATED) | same
	// (the same mandate, PENDING again)
	BankChange string `yaml:"bank_change"`
	// spelling of the cancel call: colon | slash | query | body
	Cancel string `yaml:"cancel"`
	// statuses with a refused cancel call (400)
	CancelRefused []connector.MandateStatus `yaml:"cancel_refused"`
	// spelling of the reinstate call: none (there is none) | colon | slash | query | body
	Reinstate string `yaml:"reinstate"`
	// mandates in MIGRATING exist: Migrate may be used
	Migrating bool `yaml:"migrating"`

	// steps before a subscription is taken: subscribe | digest_auth_subscribe
	WebhookSetup string `yaml:"webhook_setup"`
	// reading the subscription back: list | none (refused with RefusedMethodStatus)
	WebhookRead string    `yaml:"webhook_read"`
	Signature   Signature `yaml:"signature"`
	TypeHeader  string    `yaml:"type_header"` // delivery header that names the event's category; "" sends none
	// flat | nested | thin (the public form: upper-case type, ids, no status, no time)
	Payload string `yaml:"payload"`
	// id of the biller behind a token, in thin payloads and at GET /biller; "" is sandbox-biller, and no such call
	Biller      string   `yaml:"biller"`
	ExtraEvents []string `yaml:"extra_events"` // types sent with every event, subscribed or not
}

// List holds the open points of GET /customers.
type List struct {
	PageParam string `yaml:"page_param"` // "" is Page
	SizeParam string `yaml:"size_param"` // "" is Size
	FirstPage int    `yaml:"first_page"` // index of the first page, 0 or 1
	// an index below FirstPage is refused with 400, not read as the first page
	RefuseBelow bool `yaml:"refuse_below"`
	IgnorePage  bool `yaml:"ignore_page"`  // every request gets the first page (fault F18)
	DefaultSize int  `yaml:"default_size"` // 0 is 20
	MaxSize     int  `yaml:"max_size"`     // larger sizes are cut to it without a word; 0 is 100
	// array | customers (with page and pagination) | another key of the list, with page
	Envelope string `yaml:"envelope"`
	Sort     string `yaml:"sort"` // created_asc | created_desc | name | updated_desc
	// a query sort=creationTime,DESC (or lastUpdatedTime, name) wins over Sort
	SortParam      bool   `yaml:"sort_param"`
	FinancialParam string `yaml:"financial_param"` // "" is financialStatus
}

// Standard returns the switches as the dialect profile standard expects them,
// every default written out.
func Standard() Switches {
	var sw Switches
	sw.fill()
	return sw
}

// Adfin returns the switches for the public documentation of a service with the
// same shapes.
func Adfin() Switches {
	sw := Switches{
		TokenAuth: "any", APITokens: "authorization_code",
		List: List{
			PageParam: "page", SizeParam: "size", RefuseBelow: true, Envelope: "customers",
			Sort: "created_desc", SortParam: true, FinancialParam: "financialStatuses",
		},
		PersonFields: "long", AddressFields: "long", ExternalData: "array", CustomerTimes: true, Times: "utc",
		CreateLink: "none", CreateHidesExternalData: true, ValidationStatus: 400, Update: "both", WriteAnswer: "empty",
		EmptyMandate: "object", MandateLink: "put_list", Migrating: true, Reinstate: "colon",
		CancelRefused: []connector.MandateStatus{connector.MandateCancelled},
		WebhookSetup:  "digest_auth_subscribe", TypeHeader: "adfin-webhook-type", Payload: "thin", Biller: "sandbox-biller",
		Signature: Signature{
			Header: "adfin-webhook-signature", TimestampHeader: "adfin-webhook-signature-timestamp",
			IDHeader: "adfin-webhook-instance-id", Encoding: "base64", Signed: "{body}{timestamp}", Timestamp: "rfc3339",
		},
	}
	sw.fill()
	return sw
}

// Validate reports every setting with an unknown value, in one error; nil when there is none.
func (sw Switches) Validate() error {
	sw.fill()
	var errs []error
	for _, k := range Table() {
		errs = append(errs, k.set(&sw, k.read(&sw)))
	}
	return errors.Join(append(errs, sw.Signature.check())...)
}

// fill writes the default into every field that is blank.
func (sw *Switches) fill() {
	for _, k := range Table() {
		if v := k.read(sw); k.Default != "" && (v == "" || v == "0") {
			_ = k.write(sw, k.Default) // a default is allowed
		}
	}
}

func orDefault[T comparable](field *T, value T) {
	var blank T
	if *field == blank {
		*field = value
	}
}
