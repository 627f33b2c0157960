package httpsource

import (
	"strings"
	"time"

	generate "github.com/invopop/jsonschema"
	yaml "go.yaml.in/yaml/v4"
)

// profileFile is a profile as it is written.
type profileFile struct {
	Version  int                    `yaml:"profile" jsonschema:"required,enum=1,example=1" jsonschema_description:"The version of this format: 1."`
	Extends  string                 `yaml:"extends" meaning:"-" jsonschema_description:"The shipped profile that this one changes. What is left out here is inherited. Lists are replaced; fields of a record are added by their names."`
	Name     string                 `yaml:"name" jsonschema:"required,title=small letters and digits\\, at most 32,pattern=^[a-z][a-z0-9-]{0\\,31}$" jsonschema_description:"The name that source.kind and the mapping use."`
	Title    string                 `yaml:"title" meaning:"-" jsonschema:"required,pattern=\\S" jsonschema_description:"The system's name, for people."`
	Proven   provenFile             `yaml:"proven" meaning:"-" jsonschema:"required" jsonschema_description:"What this profile was tested with."`
	Register string                 `yaml:"register" meaning:"-" jsonschema_description:"What to register at the vendor, and which permission to give. init prints it."`
	Settings map[string]settingFile `yaml:"settings" jsonschema_description:"The settings of the source's block in payersync.yaml."`
	Base     text                   `yaml:"base" jsonschema:"required" jsonschema_description:"The API's address. Every request stays on its host."`
	Headers  map[string]text        `yaml:"headers" jsonschema_description:"Headers of every request."`
	Auth     authFile               `yaml:"auth" jsonschema:"required" jsonschema_description:"How the source proves who it is."`
	Limits   limitsFile             `yaml:"limits" jsonschema_description:"The system's request limits."`
	Tenant   tenantFile             `yaml:"tenant" jsonschema:"required" jsonschema_description:"How the company is asked for."`
	List     listFile               `yaml:"list" jsonschema:"required" jsonschema_description:"How customers are listed."`
	Model    modelFile              `yaml:"model" jsonschema:"required" jsonschema_description:"What the system does. The walk is derived from it."`
	Errors   []errorFile            `yaml:"errors" jsonschema_description:"Rules for answers, tried before those of every system."`
	Record   recordFile             `yaml:"record" jsonschema:"required" jsonschema_description:"What one record looks like."`
	Write    *writeFile             `yaml:"write" meaning:"-" jsonschema_description:"How write-back sets one field of a record. Left out, nothing is ever written."`
	Probes   []probeFile            `yaml:"probes" jsonschema_description:"Further requests of a check."`
	Traps    []string               `yaml:"traps" meaning:"-" jsonschema_description:"What surprises people about this system."`
	Fake     *fakeFile              `yaml:"fake" meaning:"-" jsonschema_description:"What the system's answers look like, for the model that source check tests the profile with."`
}

type provenFile struct {
	Documents text `yaml:"documents" jsonschema:"required" jsonschema_description:"The month when the vendor's documentation was read."`
	Live      text `yaml:"live" jsonschema:"required" jsonschema_description:"The month when a company was read, or never."`
}

type settingFile struct {
	Type     string `yaml:"type" jsonschema:"required,enum=text,enum=flag,enum=number,enum=address,enum=secret" jsonschema_description:"The kind of value."`
	Is       string `yaml:"is" meaning:"-" jsonschema:"required" jsonschema_description:"What it is, for people."`
	Required bool   `yaml:"required" jsonschema_description:"Nothing can be read without it."`
	Default  *text  `yaml:"default" jsonschema_description:"Its value where none is given."`
	Pattern  string `yaml:"pattern" jsonschema_description:"A pattern (RE2) that a text must match. Default letters, digits and . _ -"`
}

type authFile struct {
	Kind      string            `yaml:"kind" jsonschema:"required,enum=header,enum=login,enum=oauth2-code,enum=oauth2-client" jsonschema_description:"header: fixed keys. login: keys in the bodies of requests, after a login. oauth2-code: a person's consent. oauth2-client: the app alone."`
	Headers   map[string]text   `yaml:"headers" jsonschema_description:"For kind header: the headers with the keys, as secret.NAME."`
	Login     *loginFile        `yaml:"login" jsonschema_description:"For kind login: the request that gives the session."`
	Authorize text              `yaml:"authorize" jsonschema_description:"For kind oauth2-code: the page for the consent."`
	Token     text              `yaml:"token" jsonschema_description:"For OAuth 2: the token endpoint."`
	Client    string            `yaml:"client" jsonschema:"enum=basic,enum=body" jsonschema_description:"Where the app's id and secret stand in a request for a token. Default basic."`
	Scopes    []string          `yaml:"scopes" jsonschema_description:"What the consent asks for."`
	Params    map[string]string `yaml:"params" jsonschema_description:"Further parameters of the consent page's address."`
	Scheme    string            `yaml:"scheme" jsonschema_description:"The word before the access token in Authorization. Default Bearer."`
	Idle      span              `yaml:"idle" jsonschema_description:"How long an unused consent works."`
	Grace     span              `yaml:"grace" jsonschema_description:"How long a replaced refresh token still works."`
}

// loginFile is a request that gives a session: a value that later requests carry.
type loginFile struct {
	requestFile `yaml:",inline"`
	Session     expression `yaml:"session" jsonschema:"required" jsonschema_description:"The session in the answer; false, null or blank for refused keys."`
}

type limitsFile struct {
	Windows    []windowFile `yaml:"windows" jsonschema:"maxItems=2,title=two windows at most" jsonschema_description:"Requests in a time, the shorter time first."`
	Concurrent int          `yaml:"concurrent" jsonschema:"minimum=1" jsonschema_description:"Requests at a time."`
}

type windowFile struct {
	Requests int  `yaml:"requests" jsonschema:"required,minimum=1" jsonschema_description:"How many requests."`
	Per      span `yaml:"per" jsonschema:"required" jsonschema_description:"In which time, as 1m or 24h."`
}

// requestFile is a request that reads.
type requestFile struct {
	Method  string          `yaml:"method" jsonschema:"enum=GET,enum=POST" jsonschema_description:"Default GET."`
	Reads   bool            `yaml:"reads" jsonschema_description:"Your word that this POST changes nothing."`
	Path    text            `yaml:"path" jsonschema:"required" jsonschema_description:"Below base, beginning with a slash."`
	Query   map[string]text `yaml:"query" jsonschema_description:"A value that is null leaves the pair out."`
	Headers map[string]text `yaml:"headers" jsonschema_description:"Headers of this request."`
	Body    any             `yaml:"body" jsonschema_description:"The body of a POST, as JSON."`
}

type tenantFile struct {
	requestFile `yaml:",inline"`
	Records     text       `yaml:"records" jsonschema:"required" jsonschema_description:"The path to the companies in the answer; $ is the answer itself."`
	Where       expression `yaml:"where" jsonschema_description:"Which of them count."`
	ID          expression `yaml:"id" jsonschema:"required" jsonschema_description:"The company's stable id."`
	Title       expression `yaml:"name" jsonschema:"required" jsonschema_description:"Its name, for people."`
	Within      text       `yaml:"within" jsonschema_description:"What the id is unique within, for systems on a server of their own."`
}

type listFile struct {
	requestFile `yaml:",inline"`
	Size        int         `yaml:"size" jsonschema:"required,minimum=1,maximum=5000" jsonschema_description:"Records on a page."`
	Since       text        `yaml:"since" jsonschema_description:"The form of the time since: a layout of Go, unix or unix-ms. Left out, every read is a full one."`
	Exclusive   bool        `yaml:"exclusive" jsonschema_description:"The list leaves out records of exactly that time."`
	Records     text        `yaml:"records" jsonschema:"required" jsonschema_description:"The path to the records in the answer; $ is the answer itself."`
	Last        expression  `yaml:"last" jsonschema_description:"True on the last page."`
	Next        expression  `yaml:"next" jsonschema_description:"The address of the next page; blank or null on the last."`
	Cursor      expression  `yaml:"cursor" jsonschema_description:"The cursor of the next page in the answer; blank or null on the last. The request reads it as cursor."`
	After       expression  `yaml:"after" jsonschema_description:"The key of a record, from which the next page goes on."`
	Total       expression  `yaml:"total" jsonschema_description:"How many records the list holds."`
	Empty       expression  `yaml:"empty" jsonschema_description:"True for an answer that means an empty page, as status == 404."`
	Detail      *detailFile `yaml:"detail" jsonschema_description:"A further request for each listed record, where the list is a summary."`
	Join        []joinFile  `yaml:"join" jsonschema_description:"Further lists whose rows belong to a record, as its addresses."`
	Refuse      []ruleFile  `yaml:"refuse" jsonschema_description:"Answers that prove nothing, as another page than was asked for."`
}

// detailFile is a request for one record, of which the list shows a part. Its path knows row, the listed record.
type detailFile struct {
	requestFile `yaml:",inline"`
	Record      text `yaml:"record" jsonschema:"required" jsonschema_description:"The path to the record in the answer; $ is the answer itself."`
}

// joinFile is a list that is read before the records. Its rows become a field of the record that they belong to.
type joinFile struct {
	requestFile `yaml:",inline"`
	Name        string     `yaml:"name" jsonschema:"required" jsonschema_description:"The field that they become."`
	Records     text       `yaml:"records" jsonschema:"required" jsonschema_description:"The path to the rows in the answer."`
	Of          expression `yaml:"of" jsonschema:"required" jsonschema_description:"The id of the record that a row belongs to."`
	ID          expression `yaml:"id" jsonschema:"required" jsonschema_description:"The row's own id."`
	Last        expression `yaml:"last" jsonschema:"required" jsonschema_description:"True on the last page."`
	Total       expression `yaml:"total" jsonschema_description:"How many rows the list holds."`
}

type ruleFile struct {
	When expression `yaml:"when" jsonschema:"required" jsonschema_description:"When it applies."`
	Say  string     `yaml:"say" meaning:"-" jsonschema:"required,pattern=\\S" jsonschema_description:"Why, for people."`
}

type modelFile struct {
	Order    string `yaml:"order" jsonschema:"required" jsonschema_description:"The field that the list is sorted by; none where the vendor names none."`
	Unique   bool   `yaml:"unique" jsonschema_description:"No two records share a value of order."`
	Paging   string `yaml:"paging" jsonschema:"required,enum=offset,enum=keyset" jsonschema_description:"offset: pages by position. keyset: pages behind a key of order."`
	Changed  string `yaml:"changed" jsonschema:"required" jsonschema_description:"The field with the time of last edit; none where there is none, and hidden where no record shows it."`
	Grain    span   `yaml:"grain" jsonschema_description:"The smallest step of that time. Default 1s."`
	Deletes  string `yaml:"deletes" jsonschema:"required,enum=vanish,enum=report,enum=never" jsonschema_description:"What becomes of a deleted record in the list."`
	Children string `yaml:"children" jsonschema:"required,enum=none,enum=joined,enum=separate,enum=unknown" jsonschema_description:"Whether an edit of an address or a contact person touches the record's time."`
}

type errorFile struct {
	When  expression `yaml:"when" jsonschema:"required" jsonschema_description:"When it applies."`
	Is    string     `yaml:"is" jsonschema:"required,enum=throttled,enum=disconnected,enum=unavailable,enum=rejected"`
	Wait  span       `yaml:"wait" jsonschema_description:"For throttled: how long to wait where the answer does not say."`
	Reset *resetFile `yaml:"reset" jsonschema_description:"For throttled: the header that says when to go on."`
	Say   string     `yaml:"say" meaning:"-" jsonschema_description:"Why, for people."`
}

type resetFile struct {
	Header string `yaml:"header" jsonschema:"required" jsonschema_description:"Its name."`
	As     string `yaml:"as" jsonschema:"required,enum=seconds,enum=epoch,enum=epoch-ms"`
}

type recordFile struct {
	Noun     string      `yaml:"noun" jsonschema:"required" jsonschema_description:"What the system calls it, for people."`
	ID       expression  `yaml:"id" jsonschema:"required" jsonschema_description:"The id that never changes."`
	Updated  expression  `yaml:"updated" jsonschema_description:"The time of last edit."`
	Times    []string    `yaml:"times" jsonschema_description:"The forms of that time: layouts of Go, ms-date, unix or unix-ms."`
	Zone     text        `yaml:"zone" jsonschema_description:"The zone of times without one. Default UTC."`
	Empty    string      `yaml:"empty" jsonschema_description:"The JSON that the system writes for what is empty, besides null."`
	States   []stateFile `yaml:"states" jsonschema:"required,minItems=1" jsonschema_description:"The first that fits counts. None fits: unknown, never active."`
	Problems []ruleFile  `yaml:"problems" jsonschema_description:"Records that cannot be used."`
	Fields   []fieldFile `yaml:"fields" jsonschema:"required,minItems=1" jsonschema_description:"The fields of a record. No bank details, no balances."`
}

type stateFile struct {
	When expression `yaml:"when" jsonschema:"required" jsonschema_description:"When it applies."`
	Is   string     `yaml:"is" jsonschema:"required,enum=active,enum=archived,enum=deleted,enum=merged"`
	Into expression `yaml:"into" jsonschema_description:"For merged: the id of the survivor."`
}

type fieldFile struct {
	Name    string      `yaml:"name" jsonschema:"required,pattern=\\S" jsonschema_description:"Its name in the system's record."`
	Type    string      `yaml:"type" jsonschema:"enum=text,enum=number,enum=flag,enum=list,enum=object" jsonschema_description:"Default text."`
	Is      string      `yaml:"is" meaning:"-" jsonschema_description:"What it is, for people."`
	Example text        `yaml:"example" meaning:"-" jsonschema_description:"An invented value."`
	Export  []string    `yaml:"export" meaning:"-" jsonschema_description:"The headings of this field in the system's own CSV export, where it identifies a customer."`
	Fields  []fieldFile `yaml:"fields" jsonschema_description:"Its own fields, of an object or a list of objects."`
}

// JSONSchema leaves the schema of inner fields to the loader: the type holds itself.
func (fieldFile) JSONSchema() *generate.Schema {
	s := &generate.Schema{Type: "object", Required: []string{"name"}, AdditionalProperties: generate.FalseSchema,
		Properties: generate.NewProperties()}
	s.Properties.Set("name", &generate.Schema{Type: "string", Pattern: `\S`})
	s.Properties.Set("type", &generate.Schema{Type: "string", Enum: []any{"text", "number", "flag", "list", "object"}})
	s.Properties.Set("is", &generate.Schema{Type: "string"})
	s.Properties.Set("example", text("").JSONSchema())
	s.Properties.Set("export", &generate.Schema{Type: "array", Items: &generate.Schema{Type: "string", Pattern: `\S`},
		Description: "The headings of this field in the system's own CSV export, where it identifies a customer."})
	s.Properties.Set("fields",
		&generate.Schema{Type: "array", Items: &generate.Schema{Type: "object", Required: []string{"name"}}})
	return s
}

type probeFile struct {
	requestFile `yaml:",inline"`
	Name        string     `yaml:"name" meaning:"-" jsonschema:"required" jsonschema_description:"What is tested."`
	When        expression `yaml:"when" jsonschema:"required" jsonschema_description:"True for an answer that is not right."`
	Say         string     `yaml:"say" meaning:"-" jsonschema:"required" jsonschema_description:"What is wrong then, for people."`
}

// fakeFile is the shape of a system's answers, for the model of it.
type fakeFile struct {
	Answer  any             `yaml:"answer" jsonschema:"required" jsonschema_description:"A page: its holes know rows, page, pages, total, size, next and cursor."`
	Headers map[string]text `yaml:"headers" jsonschema_description:"Headers of a page, with the same holes."`
	Row     map[string]any  `yaml:"row" jsonschema_description:"What the list shows of a record, where list.detail gives the rest."`
	Join    map[string]any  `yaml:"join" jsonschema_description:"A row of each list of list.join, by its name."`
	Login   any             `yaml:"login" jsonschema_description:"The answer to the login."`
	Record  map[string]any  `yaml:"record" jsonschema:"required" jsonschema_description:"A record: its holes know id, number, name, state, survivor, updated and value, that of the field that write sets."`
	Tenant  any             `yaml:"tenant" jsonschema:"required" jsonschema_description:"The answer to the request for the company."`
	Wrote   any             `yaml:"wrote" jsonschema_description:"The answer to the request of write; it also knows record. Default what the field is read from."`
}

// text is a text with holes, ${expression}. YAML may read it as a number or as true or false; its text counts.
type text string

// UnmarshalYAML keeps the text of the value.
func (t *text) UnmarshalYAML(node *yaml.Node) error {
	*t = text(node.Value)
	return nil
}

// JSONSchema describes a text to editors.
func (text) JSONSchema() *generate.Schema {
	return &generate.Schema{Title: "a text",
		OneOf: []*generate.Schema{{Type: "string"}, {Type: "boolean"}, {Type: "number"}}}
}

// expression is an expression as it is written.
type expression string

// UnmarshalYAML keeps the text of the value.
func (e *expression) UnmarshalYAML(node *yaml.Node) error {
	*e = expression(node.Value)
	return nil
}

// JSONSchema describes an expression to editors.
func (expression) JSONSchema() *generate.Schema {
	return &generate.Schema{Title: "an expression, as in rows < size",
		OneOf: []*generate.Schema{{Type: "string", Pattern: `\S`}, {Type: "boolean"}, {Type: "number"}}}
}

// span is a length of time, as 5s or 24h.
type span time.Duration

// UnmarshalYAML reads the length.
func (s *span) UnmarshalYAML(node *yaml.Node) error {
	d, err := time.ParseDuration(strings.TrimSpace(node.Value))
	*s = span(d)
	return err
}

// JSONSchema describes a length of time to editors.
func (span) JSONSchema() *generate.Schema {
	return &generate.Schema{Type: "string", Title: "a length of time, as in 5s, 1m or 24h",
		Pattern: `^([0-9]+(ms|s|m|h))+$`}
}
