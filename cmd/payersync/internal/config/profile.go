package config

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"sync"

	generate "github.com/invopop/jsonschema"
	yaml "go.yaml.in/yaml/v4"

	"payersync/configs"
	"payersync/connector"
	"payersync/connector/accounting/httpsource"
	"payersync/mapping/strict"
)

// KindHTTP is a source with a profile of its user's own. Each shipped profile is a kind of its own.
const KindHTTP = "http"

// Profiled are the keys of a source with a profile.
type Profiled struct {
	Profile  string            // the file of KindHTTP
	Tenant   string            // the company's id
	BaseURL  string            // of a test server
	PageSize int               // records on a page; 0 for the profile's
	Writes   bool              // write-back sets a field
	Settings map[string]string // the profile's own settings

	Loaded *httpsource.Profile // of KindHTTP, once the configuration was read
}

// profiledKeys are the keys that every source with a profile has.
type profiledKeys struct {
	Profile  string `yaml:"profile"`
	Tenant   string `yaml:"tenant"`
	BaseURL  string `yaml:"base_url"`
	PageSize int    `yaml:"page_size"`
}

// ofProfiles are the keys that are no settings of a profile.
var ofProfiles = []string{"kind", "full_every", "client_id", "client_secret", "authorize_url", "token_url", "api_key",
	"api_secret", "profile", "tenant", "base_url", "page_size"}

// UnmarshalYAML reads the keys. Those that are not common to all profiles are settings of the profile.
func (p *Profiled) UnmarshalYAML(node *yaml.Node) error {
	var keys profiledKeys
	if err := node.Decode(&keys); err != nil {
		return err
	}
	*p = Profiled{Profile: keys.Profile, Tenant: keys.Tenant, BaseURL: keys.BaseURL, PageSize: keys.PageSize,
		Settings: map[string]string{}}
	for i := 0; i+1 < len(node.Content); i += 2 {
		if name := node.Content[i].Value; !slices.Contains(ofProfiles, name) {
			p.Settings[name] = node.Content[i+1].Value
		}
	}
	return nil
}

// Profiles are the names of the shipped profiles, sorted.
func Profiles() []string { return slices.Sorted(maps.Keys(profileHeads())) }

// profileHead is the part of a shipped profile that the schema of the configuration needs.
type profileHead struct {
	Settings map[string]struct {
		Type, Is string
		Required bool
	}
	Auth struct{ Kind string }
}

// profileHeads reads the heads of the shipped profiles.
var profileHeads = sync.OnceValue(func() map[string]profileHead {
	out := map[string]profileHead{}
	names, _ := fs.Glob(configs.FS, "sources/*/profile.yaml") // the pattern is valid
	for _, name := range names {
		var head profileHead
		data, err := fs.ReadFile(configs.FS, name)
		if err == nil {
			err = yaml.Unmarshal(data, &head)
		}
		if err != nil {
			panic(fmt.Errorf("%s: %w", name, err)) // a mistake in this program
		}
		out[path.Base(path.Dir(name))] = head
	}
	return out
})

var shippedProfiles sync.Map

// ShippedFile is the file of a shipped profile in configs.FS.
func ShippedFile(name string) string { return path.Join("sources", name, "profile.yaml") }

// shippedText returns the text of a shipped profile.
func shippedText(name string) ([]byte, error) {
	if !slices.Contains(Profiles(), name) {
		return nil, fmt.Errorf("there is no shipped profile %q; %s", name, strict.Suggest(name, Profiles()))
	}
	return fs.ReadFile(configs.FS, ShippedFile(name))
}

// ShippedProfile returns a shipped profile; nil for no profile's name.
func ShippedProfile(name string) *httpsource.Profile {
	if known, ok := shippedProfiles.Load(name); ok {
		return known.(*httpsource.Profile)
	}
	data, err := fs.ReadFile(configs.FS, ShippedFile(name))
	if err != nil {
		return nil
	}
	p, err := httpsource.Load(ShippedFile(name), data)
	if err != nil {
		panic(err) // a mistake in this program
	}
	shippedProfiles.Store(name, p)
	return p
}

// ownProfiles are the profiles that this process read from files, by name and content.
var ownProfiles sync.Map

// LoadProfile reads the profile in a file. It returns the same profile again for the same content, so two readings of
// an unchanged configuration are equal, and serve sees an edit of the profile as an edit of the configuration.
func LoadProfile(file string) (*httpsource.Profile, error) {
	f, err := os.Open(file) //nolint:gosec // the configuration names it
	if err != nil {
		return nil, fmt.Errorf("cannot read the profile: %w; check the name of its file", err)
	}
	data, err := io.ReadAll(io.LimitReader(f, httpsource.MaxProfile+1))
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("cannot read the profile: %w", err)
	}
	key := file + "\x00" + string(data)
	if known, ok := ownProfiles.Load(key); ok {
		return known.(*httpsource.Profile), nil
	}
	p, err := httpsource.LoadOver(file, data, shippedText)
	if err != nil {
		return nil, err
	}
	known, _ := ownProfiles.LoadOrStore(key, p)
	return known.(*httpsource.Profile), nil
}

// ProfileOf returns the source's profile; nil for a source without one.
func (s *Source) ProfileOf() *httpsource.Profile {
	if s.Kind == KindHTTP {
		return s.HTTP.Loaded
	}
	if _, known := profileHeads()[s.Kind]; !known {
		return nil
	}
	return ShippedProfile(s.Kind)
}

// ownProfile reads the profile of a source of KindHTTP.
func (c *check) ownProfile(at strict.Path, s *Source) {
	if s.Kind != KindHTTP || s.HTTP.Profile == "" || !c.ownFile(at.Key("profile"), s.HTTP.Profile) {
		return
	}
	s.HTTP.Profile = c.path(s.HTTP.Profile)
	if c.config.Node == nil {
		c.config.Files = append(c.config.Files, s.HTTP.Profile)
	}
	p, err := LoadProfile(s.HTTP.Profile)
	if err != nil {
		c.report(at.Key("profile"), "%s", err)
		return
	}
	s.HTTP.Loaded = p
}

// settings returns the values of a profile's settings.
func (s *Source) settings() httpsource.Config {
	return httpsource.Config{
		Settings: s.HTTP.Settings, Tenant: s.HTTP.Tenant, BaseURL: s.HTTP.BaseURL, PageSize: s.HTTP.PageSize,
		Writes:  s.HTTP.Writes,
		Secrets: map[string]connector.Secret{"api_key": s.APIKey.Secret, "api_secret": s.APISecret.Secret},
	}
}

// profiledKinds are the kinds of sources with a profile.
func profiledKinds() []sourceKind {
	out := []sourceKind{{name: KindHTTP, own: profiledKeys{}, full: true}}
	for _, name := range Profiles() {
		head := profileHeads()[name]
		out = append(out, sourceKind{name: name, own: profiledKeys{}, oauth: strings.HasPrefix(head.Auth.Kind, "oauth2-"),
			full: true, profile: &head})
	}
	return out
}

// addSettings adds a profile's settings to the schema of its kind. Those of a user's own profile are not known here.
func (k sourceKind) addSettings(s *generate.Schema) {
	texts := []*generate.Schema{{Type: "string"}, {Type: "number"}}
	if k.profile == nil {
		if k.name == KindHTTP {
			s.AdditionalProperties = generate.TrueSchema
			s.Required = append(s.Required, "profile")
			for _, key := range []string{"client_id", "client_secret", "api_key", "api_secret"} {
				s.Properties.Set(key, Secret{}.JSONSchema())
			}
		}
		return
	}
	s.Properties.Delete("profile")
	for _, name := range slices.Sorted(maps.Keys(k.profile.Settings)) {
		setting := k.profile.Settings[name]
		property := &generate.Schema{Title: "a text", OneOf: texts}
		switch setting.Type {
		case "flag":
			property = &generate.Schema{Type: "boolean"}
		case "number":
			property = &generate.Schema{Type: "integer"}
		case "secret":
			property = Secret{}.JSONSchema()
		}
		property.Description = setting.Is
		s.Properties.Set(name, property)
		if setting.Required {
			s.Required = append(s.Required, name)
		}
	}
}

// consent completes an authorisation server by a profile.
func (s *Source) consent() (out httpsource.Consent) {
	if p := s.ProfileOf(); p != nil {
		out, _ = p.Consent(s.settings()) // checked when the configuration was read
	}
	out.Endpoint.AuthURL = cmp.Or(s.AuthorizeURL, out.Endpoint.AuthURL)
	out.Endpoint.TokenURL = cmp.Or(s.TokenURL, out.Endpoint.TokenURL)
	return out
}

// PublicOnly reports whether the source may connect to public addresses alone: its profile names the server, and no
// setting does.
func (s *Source) PublicOnly() bool {
	p := s.ProfileOf()
	return p != nil && s.HTTP.BaseURL == "" && !p.OwnServer()
}

// Name is the name of the source in a mapping. For a source with a profile, it is the profile's name.
func (s *Source) Name() string {
	if p := s.ProfileOf(); p != nil {
		return p.Name()
	}
	return s.Kind
}
