package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"payersync/connector"
)

// Switch is one open point of the interface as people set it. Table lists them all:
// whatever checks, explains, shows or changes a switch reads it there.
type Switch struct {
	Name    string // as in the yaml tags, list.sort for Sort of List
	Group   string
	Allowed []string // the possible words or numbers, the default first; none if Form gives the type
	Form    string   // its type if no words are listed
	Default string   // of the profile standard
	Means   string

	read  func(*Switches) string
	write func(*Switches, string) error
}

// Value returns the switch's value in sw, in the form for Set. Only tests call it: two packages compare the
// settings of a service with it.
func (k Switch) Value(sw Switches) string { return k.read(&sw) }

// Takes describes the switch's possible values.
func (k Switch) Takes() string {
	if len(k.Allowed) > 0 {
		return strings.Join(k.Allowed, ", ")
	}
	return k.Form
}

// ErrSwitch means there is no such switch, or it cannot hold the value.
var ErrSwitch = errors.New("not a setting of the sandbox")

type refused string

func (r refused) Error() string { return string(r) }
func (refused) Unwrap() error   { return ErrSwitch }

// Set gives the switch called name a value, in the spelling that Table says.
func (sw *Switches) Set(name, value string) error {
	k, err := find(name)
	if err != nil {
		return err
	}
	sw.fill()
	return k.set(sw, value)
}

func (k Switch) set(sw *Switches, value string) error {
	if err := k.write(sw, value); err != nil {
		hint := ""
		if near := connector.Nearest(value, k.Allowed); near != "" {
			hint = fmt.Sprintf(" (did you mean %s?)", near)
		}
		return refused(fmt.Sprintf("sandbox switch %s is %q%s: use %s", k.Name, value, hint, k.Takes()))
	}
	return nil
}

func find(name string) (Switch, error) {
	table := Table()
	for _, k := range table {
		if k.Name == name {
			return k, nil
		}
	}
	names := make([]string, len(table))
	for i, k := range table {
		names[i] = k.Name
	}
	if near := connector.Nearest(name, names); near != "" {
		return Switch{}, refused(fmt.Sprintf("there is no sandbox switch %q: did you mean %s? The help of the sandbox lists them", name, near))
	}
	return Switch{}, refused(fmt.Sprintf("there is no sandbox switch %q: the help of the sandbox lists them", name))
}

// Profiles are the names that Profile knows.
func Profiles() []string { return []string{"standard", "adfin"} }

// Profile returns the switches as the dialect profile of that name expects them.
func Profile(name string) (Switches, error) {
	switch name {
	case "standard":
		return Standard(), nil
	case "adfin":
		return Adfin(), nil
	}
	return Switches{}, refused(fmt.Sprintf("there is no profile %q: use %s", name, strings.Join(Profiles(), " or ")))
}

// The groups of switches, in the order they are shown.
const (
	groupTokens    = "Tokens"
	groupList      = "Lists"
	groupCustomers = "Customers"
	groupMandates  = "Mandates"
	groupWebhooks  = "Webhooks"
	groupSignature = "Signatures"
)

var errValue = errors.New("not a value of this switch")

const statusForm = "statuses with commas, none when empty"

// Table lists every switch in its group, in the order people read them.
func Table() []Switch {
	return slices.Concat(tokenSwitches(), listSwitches(), customerSwitches(), mandateSwitches(), webhookSwitches(),
		signatureSwitches())
}

func tokenSwitches() []Switch {
	const g = groupTokens
	return []Switch{
		word(g, "token_auth", func(sw *Switches) *string { return &sw.TokenAuth },
			"How the token endpoint takes the client's credentials.", "form", "basic", "any"),
		free(g, "expires_in", func(sw *Switches) *string { return &sw.ExpiresIn }, "", rawNumber,
			`JSON such as 0, -1 or "3600"; omit sends none; empty is true`, "What expires_in says, in raw JSON."),
		word(g, "api_tokens", func(sw *Switches) *string { return &sw.APITokens },
			"Which kind of token customers and mandates take.", "any", ClientCredentials, AuthorizationCode),
		oneNumber(g, "wrong_token_status", func(sw *Switches) *int { return &sw.WrongTokenStatus },
			"The answer to a token of the wrong kind.", 403, 401, 400),
	}
}

func listSwitches() []Switch {
	const g = groupList
	return []Switch{
		free(g, "list.page_param", func(sw *Switches) *string { return &sw.List.PageParam }, "Page", filled, "a name",
			"The query parameter that names the page."),
		free(g, "list.size_param", func(sw *Switches) *string { return &sw.List.SizeParam }, "Size", filled, "a name",
			"The query parameter that names the size of pages."),
		oneNumber(g, "list.first_page", func(sw *Switches) *int { return &sw.List.FirstPage },
			"The number of the first page.", 0, 1),
		yesNo(g, "list.refuse_below", func(sw *Switches) *bool { return &sw.List.RefuseBelow },
			"A page before the first is refused with 400, not read as the first."),
		yesNo(g, "list.ignore_page", func(sw *Switches) *bool { return &sw.List.IgnorePage },
			"Every request gets the first page."),
		count(g, "list.default_size", func(sw *Switches) *int { return &sw.List.DefaultSize }, 20,
			"How many customers a page has when no size is asked for."),
		count(g, "list.max_size", func(sw *Switches) *int { return &sw.List.MaxSize }, 100,
			"Larger sizes are cut to this without a word."),
		free(g, "list.envelope", func(sw *Switches) *string { return &sw.List.Envelope }, "array", filled,
			"array, or the key of the list",
			"What is around the list; beside customers stand page and pagination, beside another key page."),
		word(g, "list.sort", func(sw *Switches) *string { return &sw.List.Sort }, "The order of the list.", "created_asc",
			"created_desc", "name", "updated_desc"),
		yesNo(g, "list.sort_param", func(sw *Switches) *bool { return &sw.List.SortParam },
			"A query such as sort=creationTime,DESC wins over list.sort."),
		free(g, "list.financial_param", func(sw *Switches) *string { return &sw.List.FinancialParam }, "financialStatus",
			filled, "a name", "The query parameter that filters by financial status."),
	}
}

func customerSwitches() []Switch {
	const g = groupCustomers
	return []Switch{
		word(g, "person_fields", func(sw *Switches) *string { return &sw.PersonFields },
			"People have name and phone (short), or firstName, lastName and phoneNo (long).", "short", "long"),
		word(g, "address_fields", func(sw *Switches) *string { return &sw.AddressFields },
			"Addresses have line1 and postCode (short), or addressLine1 and postalCode (long).", "short", "long"),
		word(g, "external_data", func(sw *Switches) *string { return &sw.ExternalData },
			"A map; a list of {key, value}; one {connectorType, id} (object), or an array of such.", "map", "list", "object",
			"array"),
		yesNo(g, "customer_times", func(sw *Switches) *bool { return &sw.CustomerTimes },
			"Customers carry creationTime and lastUpdatedTime."),
		word(g, "times", func(sw *Switches) *string { return &sw.Times },
			"How times are written: with Z, with UTC, or without a zone.", "rfc3339", "utc", "zoneless"),
		word(g, "create_link", func(sw *Switches) *string { return &sw.CreateLink },
			"What a create brings for signing: an address, nothing, or a mandate in CREATED.", "url", "none", "mandate"),
		yesNo(g, "create_hides_external_data", func(sw *Switches) *bool { return &sw.CreateHidesExternalData },
			"The answer to a create leaves externalData out."),
		span(g, "hash_memory", func(sw *Switches) *time.Duration { return &sw.HashMemory }, anySpan,
			"a length of time; 0s for ever, -1s not at all", "How long a create of the same bytes makes no second customer."),
		yesNo(g, "hash_outlives_delete", func(sw *Switches) *bool { return &sw.HashOutlivesDelete },
			"A repeated create of a deleted customer answers the dead id."),
		oneNumber(g, "validation_status", func(sw *Switches) *int { return &sw.ValidationStatus },
			"The answer to a body that breaks a rule.", 422, 400),
		word(g, "update", func(sw *Switches) *string { return &sw.Update },
			"PUT /customers with the id in the body, PUT /customers/{id}, or both.", "body_id", "path_id", "both"),
		word(g, "write_answer", func(sw *Switches) *string { return &sw.WriteAnswer }, "What updates and cancels answer.",
			"object", "empty"),
		oneNumber(g, "refused_method_status", func(sw *Switches) *int { return &sw.RefusedMethodStatus },
			"The answer to a method that a switch turns off.", 405, 404, 501),
	}
}

func mandateSwitches() []Switch {
	const g = groupMandates
	return []Switch{
		word(g, "empty_mandate", func(sw *Switches) *string { return &sw.EmptyMandate },
			"directDebitMandate of a customer without one.", "absent", "object", "null"),
		word(g, "failure_reason", func(sw *Switches) *string { return &sw.FailureReason },
			"Who shows why a bank cancelled: the mandate alone, or the customer's summary too.", "mandate", "summary"),
		word(g, "mandate_times", func(sw *Switches) *string { return &sw.MandateTimes },
			"lastUpdatedTime in summaries: exact, in whole minutes, or missing.", "exact", "coarse", "missing"),
		word(g, "mandate_link", func(sw *Switches) *string { return &sw.MandateLink },
			"How a signing link is requested; with put_list GET lists the mandates.", "both", "put", "get", "put_list"),
		word(g, "link_when_created", func(sw *Switches) *string { return &sw.LinkWhenCreated },
			"A request for a signing link in CREATED: the same one, a renewed one, or a new mandate.", "same", "renewed", "new"),
		word(g, "replaced_mandate", func(sw *Switches) *string { return &sw.ReplacedMandate },
			"What becomes of the mandate in CREATED that a new one follows.", "open", "cancelled"),
		span(g, "link_life", func(sw *Switches) *time.Duration { return &sw.LinkLife },
			func(d time.Duration) bool { return d >= 0 }, "a length of time; 0s for ever",
			"How long a signing link can be opened."),
		statuses(g, "link_refused", func(sw *Switches) *[]connector.MandateStatus { return &sw.LinkRefused },
			"In these a request for a signing link is refused with 400."),
		word(g, "bank_change", func(sw *Switches) *string { return &sw.BankChange },
			"A payer changes bank: a new mandate, a new one to sign, or the same one.", "new", "sign", "same"),
		word(g, "cancel", func(sw *Switches) *string { return &sw.Cancel }, "How the cancel call is written.", "colon",
			"slash", "query", "body"),
		statuses(g, "cancel_refused", func(sw *Switches) *[]connector.MandateStatus { return &sw.CancelRefused },
			"In these a cancel call is refused with 400."),
		word(g, "reinstate", func(sw *Switches) *string { return &sw.Reinstate },
			"How the call that brings a cancelled mandate back is written; none: there is none.", "none", "colon", "slash",
			"query", "body"),
		yesNo(g, "migrating", func(sw *Switches) *bool { return &sw.Migrating }, "Mandates in MIGRATING can be made."),
	}
}

func webhookSwitches() []Switch {
	const g = groupWebhooks
	return []Switch{
		word(g, "webhook_setup", func(sw *Switches) *string { return &sw.WebhookSetup }, "The calls before webhooks come.",
			"subscribe", "digest_auth_subscribe"),
		word(g, "webhook_read", func(sw *Switches) *string { return &sw.WebhookRead },
			"Whether the subscription can be read back.", "list", "none"),
		free(g, "type_header", func(sw *Switches) *string { return &sw.TypeHeader }, "", headerName,
			"a header, none when empty", "The header that names the kind of an event."),
		word(g, "payload", func(sw *Switches) *string { return &sw.Payload },
			"The shape of events; thin has no status and no time.", "flat", "nested", "thin"),
		free(g, "biller", func(sw *Switches) *string { return &sw.Biller }, "", anyText, "an id; none when empty",
			"The biller behind a token, at GET /biller; none: there is no such call."),
		{
			Name: "extra_events", Group: g, Form: "types with commas, none when empty",
			Means: "Sent beside every event, subscribed or not.",
			read:  func(sw *Switches) string { return strings.Join(sw.ExtraEvents, ",") },
			write: func(sw *Switches, v string) error {
				sw.ExtraEvents = parts(v)
				return nil
			},
		},
	}
}

func signatureSwitches() []Switch {
	const g = groupSignature
	return []Switch{
		word(g, "signature.scheme", func(sw *Switches) *string { return &sw.Signature.Scheme },
			"Signed as the switches below say, or as Standard Webhooks.", "template", standardScheme),
		free(g, "signature.header", func(sw *Switches) *string { return &sw.Signature.Header }, "X-Signature", filledHeader,
			"a header", "Carries the signature."),
		free(g, "signature.signature_item", func(sw *Switches) *string { return &sw.Signature.SignatureItem }, "", itemName,
			"a name such as v1, none when empty", "Makes the header a list such as t=…,v1=…: what signatures are called in it."),
		free(g, "signature.timestamp_item", func(sw *Switches) *string { return &sw.Signature.TimestampItem }, "", itemName,
			"a name such as t, none when empty", "What the time of sending is called in that list."),
		yesNo(g, "signature.with_older", func(sw *Switches) *bool { return &sw.Signature.WithOlder },
			"In a list, and with Standard Webhooks, the signature of the former secret comes first, as while secrets change."),
		free(g, "signature.timestamp_header", func(sw *Switches) *string { return &sw.Signature.TimestampHeader }, "",
			headerName, "a header, none when empty", "Carries the time of sending."),
		free(g, "signature.id_header", func(sw *Switches) *string { return &sw.Signature.IDHeader }, "", headerName,
			"a header, none when empty", "Carries the id of the delivery."),
		word(g, "signature.algorithm", func(sw *Switches) *string { return &sw.Signature.Algorithm },
			"How the signature is computed; with ed25519 a public key checks it, which is shown.", "hmac-sha256", "hmac-sha512",
			algorithmEd25519),
		word(g, "signature.encoding", func(sw *Switches) *string { return &sw.Signature.Encoding },
			"How the signature is written.", "hex", "base64", "base64url"),
		free(g, "signature.prefix", func(sw *Switches) *string { return &sw.Signature.Prefix }, "", anyText,
			"text such as sha256=, none when empty", "Stands before the signature."),
		free(g, "signature.signed", func(sw *Switches) *string { return &sw.Signature.Signed }, "{body}", filled,
			"text with {body}, {timestamp} and {id}", "What is signed."),
		word(g, "signature.timestamp", func(sw *Switches) *string { return &sw.Signature.Timestamp },
			"How the time of sending is written.", "unix", "rfc3339", "zoneless"),
		word(g, "signature.key", func(sw *Switches) *string { return &sw.Signature.Key },
			"How the secret becomes the key; a public key is Base64 where this is text.", "text", "hex", "base64", "base64url"),
	}
}

func word(group, name string, at func(*Switches) *string, means string, allowed ...string) Switch {
	return Switch{
		Name: name, Group: group, Allowed: allowed, Default: allowed[0], Means: means,
		read: func(sw *Switches) string { return *at(sw) },
		write: func(sw *Switches, v string) error {
			if !slices.Contains(allowed, v) {
				return errValue
			}
			*at(sw) = v
			return nil
		},
	}
}

func oneNumber(group, name string, at func(*Switches) *int, means string, allowed ...int) Switch {
	words := make([]string, len(allowed))
	for i, n := range allowed {
		words[i] = strconv.Itoa(n)
	}
	return Switch{
		Name: name, Group: group, Allowed: words, Default: words[0], Means: means,
		read: func(sw *Switches) string { return strconv.Itoa(*at(sw)) },
		write: func(sw *Switches, v string) error {
			i := slices.Index(words, v)
			if i < 0 {
				return errValue
			}
			*at(sw) = allowed[i]
			return nil
		},
	}
}

func count(group, name string, at func(*Switches) *int, preset int, means string) Switch {
	return Switch{
		Name: name, Group: group, Form: "a number above 0", Default: strconv.Itoa(preset), Means: means,
		read: func(sw *Switches) string { return strconv.Itoa(*at(sw)) },
		write: func(sw *Switches, v string) error {
			n, err := strconv.Atoi(v)
			if err != nil || n < 1 {
				return errValue
			}
			*at(sw) = n
			return nil
		},
	}
}

func yesNo(group, name string, at func(*Switches) *bool, means string) Switch {
	allowed := []string{"false", "true"}
	return Switch{
		Name: name, Group: group, Allowed: allowed, Default: "false", Means: means,
		read: func(sw *Switches) string { return strconv.FormatBool(*at(sw)) },
		write: func(sw *Switches, v string) error {
			if !slices.Contains(allowed, v) {
				return errValue
			}
			*at(sw) = v == "true"
			return nil
		},
	}
}

func span(group, name string, at func(*Switches) *time.Duration, right func(time.Duration) bool, form,
	means string) Switch {
	return Switch{
		Name: name, Group: group, Form: form, Default: "0s", Means: means,
		read: func(sw *Switches) string { return at(sw).String() },
		write: func(sw *Switches, v string) error {
			d, err := time.ParseDuration(v)
			if err != nil || !right(d) {
				return errValue
			}
			*at(sw) = d
			return nil
		},
	}
}

func free(group, name string, at func(*Switches) *string, preset string, right func(string) bool, form,
	means string) Switch {
	return Switch{
		Name: name, Group: group, Form: form, Default: preset, Means: means,
		read: func(sw *Switches) string { return *at(sw) },
		write: func(sw *Switches, v string) error {
			if !right(v) {
				return errValue
			}
			*at(sw) = v
			return nil
		},
	}
}

func statuses(group, name string, at func(*Switches) *[]connector.MandateStatus, means string) Switch {
	return Switch{
		Name: name, Group: group, Form: statusForm, Means: means,
		read: func(sw *Switches) string {
			words := make([]string, len(*at(sw)))
			for i, status := range *at(sw) {
				words[i] = string(status)
			}
			return strings.Join(words, ",")
		},
		write: func(sw *Switches, v string) error {
			var out []connector.MandateStatus
			for _, part := range parts(v) {
				status := connector.MandateStatus(part)
				if !slices.Contains(uncancelled, status) && status != connector.MandateCancelled {
					return errValue
				}
				out = append(out, status)
			}
			*at(sw) = out
			return nil
		},
	}
}

// parts cuts a list at its commas; blanks around and between them count for nothing.
func parts(list string) []string {
	var out []string
	for part := range strings.SplitSeq(list, ",") {
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, part)
		}
	}
	return out
}

func anySpan(time.Duration) bool { return true }
func anyText(string) bool        { return true }
func filled(v string) bool       { return strings.TrimSpace(v) != "" }
func headerName(v string) bool   { return v == "" || filledHeader(v) }
func filledHeader(v string) bool {
	return filled(v) && !strings.ContainsAny(v, " \t\r\n:,;\"(){}[]<>@\\/?=")
}
func itemName(v string) bool  { return !strings.ContainsAny(v, " \t\r\n,=") }
func rawNumber(v string) bool { return v == "" || v == "omit" || json.Valid([]byte(v)) }
