package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	generate "github.com/invopop/jsonschema"
	yaml "go.yaml.in/yaml/v4"

	"payersync/connector"
	"payersync/state/files"
)

// Secret is a secret as the file writes it: env:NAME, file:PATH or the secret
// itself. Once resolved it is the secret. It prints as [redacted].
type Secret struct{ connector.Secret }

// UnmarshalYAML keeps the reference until it is resolved.
func (s *Secret) UnmarshalYAML(node *yaml.Node) error {
	var ref string
	if err := node.Decode(&ref); err != nil {
		return err
	}
	s.Secret = connector.NewSecret(ref)
	return nil
}

// JSONSchema describes a secret to editors.
func (Secret) JSONSchema() *generate.Schema {
	return &generate.Schema{Type: "string", WriteOnly: true}
}

// maxSecret is how much of a secret's file is read, in bytes.
const maxSecret = 64 << 10

// readSecret reads an ordinary file, or says why it cannot. It also returns the mode of a file readable by
// others.
func readSecret(path string) (value string, exposed fs.FileMode, why string) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) //nolint:gosec // the configuration names it; its content is never shown
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", 0, "there is no such file"
	case err != nil:
		return "", 0, "this user may not read it"
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	switch {
	case err == nil && !info.Mode().IsRegular():
		return "", 0, "it is no ordinary file"
	case err == nil && info.Size() > maxSecret:
		return "", 0, "it is too large for a secret"
	}
	exposed, exposedErr := files.Exposed(f)
	data, readErr := io.ReadAll(io.LimitReader(f, maxSecret))
	if errors.Join(err, exposedErr, readErr) != nil {
		return "", 0, "this user may not read it"
	}
	return string(data), exposed, ""
}

// ReadSecretFile reads a file with a single secret. It refuses a file readable by other users. what stands
// before the file's name in errors, such as "the key in ".
func ReadSecretFile(what, path string) (connector.Secret, error) {
	value, exposed, why := readSecret(path)
	switch {
	case exposed != 0:
		return connector.Secret{},
			fmt.Errorf("cannot use %s%s: other users of this machine may read it (mode %04o). Run: chmod 600 %[2]s", what, path,
				exposed)
	case why != "":
		return connector.Secret{}, fmt.Errorf("cannot use %s%s: %s. Put it there, readable for this user", what, path, why)
	}
	return connector.NewSecret(strings.TrimSpace(value)), nil
}

// Duration is a length of time, written as in 90s, 15m or 24h.
type Duration time.Duration

// UnmarshalText reads a duration.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil || v <= 0 {
		return fmt.Errorf("%q is no length of time; write it as in 90s, 15m or 24h", text)
	}
	*d = Duration(v)
	return nil
}

// Days is a number of days, written as in 30d; 0 if missing.
type Days int

// mostDays is more than anything is kept or waited for: ten years.
const mostDays = 3660

// UnmarshalText reads a number of days.
func (d *Days) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*d = 0
		return nil
	}
	number, ok := strings.CutSuffix(string(text), "d")
	n, err := strconv.Atoi(number)
	if !ok || err != nil || n < 1 || n > mostDays {
		return fmt.Errorf("%q is no number of days; write it as in 30d", text)
	}
	*d = Days(n)
	return nil
}

// Length returns the duration.
func (d Days) Length() time.Duration { return time.Duration(d) * 24 * time.Hour }

// JSONSchema describes a number of days to editors.
func (Days) JSONSchema() *generate.Schema {
	return &generate.Schema{Type: "string", Title: "a number of days such as 30d", Pattern: "^([1-9][0-9]{0,3}d)?$"}
}

// Network is an address, or a block of addresses, as in 10.0.0.0/8.
type Network netip.Prefix

// UnmarshalText reads a network.
func (n *Network) UnmarshalText(text []byte) error {
	prefix, err := netip.ParsePrefix(string(text))
	if addr, single := netip.ParseAddr(string(text)); single == nil && addr.Zone() == "" {
		prefix, err = addr.Unmap().Prefix(addr.Unmap().BitLen())
	}
	switch {
	case err != nil || prefix.Addr().Is4In6():
		return fmt.Errorf("%q is no network; write an address as in 10.0.0.1, or a network as in 10.0.0.0/8 or fd00::/8",
			text)
	case prefix.Bits() == 0:
		return fmt.Errorf("%q would trust everybody; name the networks of your own proxies", text)
	}
	*n = Network(prefix.Masked())
	return nil
}

// JSONSchema describes a network to editors.
func (Network) JSONSchema() *generate.Schema {
	return &generate.Schema{Type: "string", Title: "an address or a network, such as 10.0.0.1 or 10.0.0.0/8"}
}

const lengthOfTime = "a length of time such as 90s, 15m or 24h"

// JSONSchema describes a duration to editors.
func (Duration) JSONSchema() *generate.Schema {
	return &generate.Schema{Type: "string", Title: lengthOfTime}
}

// Limit is a number, or a percentage of the linked customers.
type Limit struct {
	Count   int
	Percent float64 // used when above 0
}

// String returns the limit as it is written: 20 or 5%.
func (l Limit) String() string {
	if l.Percent > 0 {
		return strconv.FormatFloat(l.Percent, 'f', -1, 64) + "%"
	}
	return strconv.Itoa(l.Count)
}

// UnmarshalYAML reads 20 or 5%.
func (l *Limit) UnmarshalYAML(node *yaml.Node) error {
	if number, isPercent := strings.CutSuffix(node.Value, "%"); isPercent {
		p, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if err != nil || !(p > 0 && p <= 100) {
			return fmt.Errorf("%q is no percentage above 0%% and up to 100%%", node.Value)
		}
		*l = Limit{Percent: p}
		return nil
	}
	n, err := strconv.Atoi(node.Value)
	if err != nil || n < 0 {
		return fmt.Errorf("%q is neither a number, such as 20, nor a percentage, such as 5%%", node.Value)
	}
	*l = Limit{Count: n}
	return nil
}

// JSONSchema describes a limit to editors.
func (Limit) JSONSchema() *generate.Schema {
	return &generate.Schema{Title: "a number or a percentage, such as 20 or 5%",
		OneOf: []*generate.Schema{{Type: "integer"}, {Type: "string"}}}
}
