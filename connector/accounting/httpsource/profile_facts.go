package httpsource

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/oauth2"

	"payersync/connector"
	"payersync/mapping/strict"
)

// Name is the profile's name, as source.kind gives it.
func (p *Profile) Name() string { return p.file.Name }

// Extends is the name of the shipped profile that this one changes; "" for a profile of its own.
func (p *Profile) Extends() string { return p.file.Extends }

// Title is the system's name, for people.
func (p *Profile) Title() string { return p.file.Title }

// Fields declares the fields of a record.
func (p *Profile) Fields() []connector.Field { return p.fields }

// IDField is the declared field with the id of a record. It is "" if the profile computes the id.
func (p *Profile) IDField() string {
	if id := strings.TrimSpace(string(p.file.Record.ID)); p.kinds[id] != "" {
		return id
	}
	return ""
}

// Auth is the kind of credentials: header, login, oauth2-code or oauth2-client.
func (p *Profile) Auth() string { return p.file.Auth.Kind }

// Traps are what surprises people about the system.
func (p *Profile) Traps() []string { return p.file.Traps }

// Register says what to register at the vendor, and which permission to give.
func (p *Profile) Register() string { return p.file.Register }

// Proven says what the profile was tested with: the months of the vendor's documentation and of a live company.
func (p *Profile) Proven() (documents, live string) {
	return string(p.file.Proven.Documents), string(p.file.Proven.Live)
}

// Whole reports whether each read is a full one.
func (p *Profile) Whole() bool { return p.wholeOnly }

// Walk is how the list is read.
func (p *Profile) Walk() Walk { return p.walk }

// Limits is the request budget of one company.
func (p *Profile) Limits() connector.Limits {
	out := connector.Limits{Concurrent: p.file.Limits.Concurrent}
	for i, w := range p.file.Limits.Windows {
		if i == 0 && (len(p.file.Limits.Windows) == 2 || time.Duration(w.Per) <= 5*time.Minute) {
			out.PerMinute, out.Minute = w.Requests, time.Duration(w.Per)
		} else {
			out.PerDay, out.Day = w.Requests, time.Duration(w.Per)
		}
	}
	return out
}

// Setting is a setting of a profile.
type Setting struct {
	Name, Type, Is, Default string
	Required                bool
}

// Settings returns the profile's settings, by name.
func (p *Profile) Settings() (out []Setting) {
	for _, name := range slices.Sorted(maps.Keys(p.file.Settings)) {
		s := p.file.Settings[name]
		one := Setting{Name: name, Type: s.Type, Is: s.Is, Required: s.Required}
		if s.Default != nil {
			one.Default = string(*s.Default)
		}
		out = append(out, one)
	}
	return out
}

// Consent is the profile's authorisation server.
type Consent struct {
	Endpoint    oauth2.Endpoint
	Scopes      []string
	Params      map[string]string
	Grace, Idle time.Duration
}

// Consent returns the authorisation server for some settings.
func (p *Profile) Consent(c Config) (Consent, error) {
	a := p.file.Auth
	env, err := p.environment(c)
	if err != nil {
		return Consent{}, err
	}
	base, err := p.base.words(env)
	if err != nil {
		return Consent{}, err
	}
	scopes := a.Scopes
	if c.Writes && p.file.Write != nil {
		scopes = slices.Concat(scopes, p.file.Write.Scopes)
	}
	out := Consent{Scopes: scopes, Params: a.Params, Grace: time.Duration(a.Grace), Idle: time.Duration(a.Idle)}
	out.Endpoint.AuthStyle = oauth2.AuthStyleInHeader
	if a.Client == "body" {
		out.Endpoint.AuthStyle = oauth2.AuthStyleInParams
	}
	for t, into := range map[*template]*string{p.authorize: &out.Endpoint.AuthURL, p.token: &out.Endpoint.TokenURL} {
		words, err := t.words(env)
		if err != nil {
			return out, err
		}
		if strings.HasPrefix(words, "/") {
			words = strings.TrimSuffix(base, "/") + words
		}
		*into = words
	}
	return out, nil
}

// Config are the values of one source's settings.
type Config struct {
	Settings map[string]string
	Secrets  map[string]connector.Secret
	Tenant   string // the company's id; "" for the only one
	BaseURL  string // of a test server; "" for the profile's
	PageSize int    // records on a page; 0 for the profile's
	Writes   bool   // the consent is for write-back as well
}

// environment returns the variables of the settings.
func (p *Profile) environment(c Config) (map[string]any, error) {
	set := map[string]any{}
	for name, s := range p.file.Settings {
		given, ok := c.Settings[name]
		switch {
		case s.Type == "secret":
			if c.Secrets[name].IsZero() && s.Required {
				return nil, fmt.Errorf("%s source: %s is missing: %s", p.Name(), name, s.Is)
			}
			continue
		case !ok && s.Default != nil:
			given, ok = string(*s.Default), true
		case !ok && s.Required:
			return nil, fmt.Errorf("%s source: %s is missing: %s", p.Name(), name, s.Is)
		}
		if !ok {
			set[name] = nil
			continue
		}
		v, err := s.value(given)
		if err != nil {
			return nil, fmt.Errorf("%s source: %s %w", p.Name(), name, err)
		}
		set[name] = v
	}
	for name := range c.Settings {
		if _, known := p.file.Settings[name]; !known {
			return nil, fmt.Errorf("%s source: there is no setting %q; %s", p.Name(), name,
				strict.Suggest(name, append(slices.Collect(maps.Keys(p.file.Settings)), "tenant", "full_every")))
		}
	}
	return map[string]any{"set": set}, nil
}

// value reads a setting.
func (s settingFile) value(given string) (any, error) {
	switch s.Type {
	case "flag":
		return strconv.ParseBool(given)
	case "number":
		return strconv.Atoi(given)
	case "address":
		return checkAddress(given)
	}
	return checkText(given, s.Pattern)
}

// PageSize is the number of records on a page of the model. Only tests call it: a check makes its customers itself.
func (p *Profile) PageSize() int { return cmp.Or(p.SampleConfig().PageSize, p.file.List.Size) }

// States are the states that the profile knows.
func (p *Profile) States() []connector.RecordState {
	return connector.Map(p.file.Record.States,
		func(s stateFile) connector.RecordState { return connector.RecordState(s.Is) })
}

// sampleSize is the number of records on a page of a model, where a request names it.
const sampleSize = 10

// SampleConfig is a configuration with a value for each required setting, for the model of the system.
func (p *Profile) SampleConfig() Config {
	c := Config{Settings: map[string]string{}, Secrets: map[string]connector.Secret{}}
	if p.list.reads("size") {
		c.PageSize = min(sampleSize, p.file.List.Size)
	}
	for _, s := range p.Settings() {
		switch {
		case s.Type == "secret":
			c.Secrets[s.Name] = connector.NewSecret("sample-key-of-" + s.Name)
		case s.Default != "" || !s.Required:
		case s.Type == "address":
			c.Settings[s.Name] = "https://books.example"
		case s.Type == "number":
			c.Settings[s.Name] = "1"
		default:
			c.Settings[s.Name] = "sample"
		}
	}
	return c
}

// OwnServer reports whether a setting names the server.
func (p *Profile) OwnServer() bool { return p.hostIsSetting }
