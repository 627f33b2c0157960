package sandbox

import (
	"errors"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// shownSwitch is a switch as pages and programs read it.
type shownSwitch struct {
	Switch
	Value   string `json:"value"`
	Differs bool   `json:"differs"` // from the profile
}

// Free reports whether any text may be tried.
func (k shownSwitch) Free() bool { return len(k.Allowed) == 0 }

// shownGroup is a group of switches on the page.
type shownGroup struct {
	Name     string
	Switches []shownSwitch
	Differ   int
}

// shownSwitches are the switches as they are, and how they differ from the profile.
type shownSwitches struct {
	Profile  string        `json:"profile"`
	Switches []shownSwitch `json:"switches"`
}

func (s *Sandbox) shownSwitches() shownSwitches {
	unlock := s.lock()
	out, sw := shownSwitches{Profile: s.opt.Profile}, s.opt.Switches
	unlock()
	expected, _ := Profile(out.Profile) // checked when it was taken
	for _, k := range Table() {
		v := k.Value(sw)
		out.Switches = append(out.Switches, shownSwitch{k, v, v != k.Value(expected)})
	}
	return out
}

func (all shownSwitches) groups() []shownGroup {
	var out []shownGroup
	for _, k := range all.Switches {
		if len(out) == 0 || out[len(out)-1].Name != k.Group {
			out = append(out, shownGroup{Name: k.Group})
		}
		last := &out[len(out)-1]
		last.Switches = append(last.Switches, k)
		if k.Differs {
			last.Differ++
		}
	}
	return out
}

func (all shownSwitches) differ() (n int) {
	for _, k := range all.Switches {
		if k.Differs {
			n++
		}
	}
	return n
}

// routeSwitches sets up the addresses that switches and faults are changed at.
func (s *Sandbox) routeSwitches(human *http.ServeMux) {
	human.HandleFunc("GET /sandbox/switches", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, s.shownSwitches()) })
	human.HandleFunc("POST /sandbox/switches", s.changes(s.switchForm, func() any { return s.shownSwitches() }))
	human.HandleFunc("GET /sandbox/faults", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, s.shownFaults()) })
	human.HandleFunc("POST /sandbox/faults", s.changes(s.faultForm, func() any { return s.shownFaults() }))
	human.HandleFunc("POST /sandbox/faults/clear", s.changes(func(url.Values) error {
		s.ClearFaults()
		return nil
	}, func() any { return s.shownFaults() }))
}

const formType = "application/x-www-form-urlencoded"

// changes takes a form, and nothing else: a body that no form is would change nothing
// and be answered as if it had. Browsers are led back to the operator's page, programs get
// what holds now.
func (s *Sandbox) changes(take func(url.Values) error, now func() any) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind != formType && r.ContentLength != 0 {
			writeStatus(w, http.StatusUnsupportedMediaType, refused("nothing was changed, because the body is no form: send NAME=VALUE as "+formType))
			return
		}
		err := r.ParseForm()
		if err == nil {
			err = take(r.PostForm)
		}
		switch {
		case err != nil:
			writeStatus(w, http.StatusBadRequest, err)
		case strings.Contains(r.Header.Get("Accept"), "text/html"):
			http.Redirect(w, r, "/", http.StatusSeeOther)
		default:
			writeJSON(w, now())
		}
	}
}

// switchForm takes switches by their names, and the field profile, which sets all as
// that profile expects before.
func (s *Sandbox) switchForm(form url.Values) error {
	values := map[string]string{}
	for name := range form {
		if name != "profile" {
			values[name] = form.Get(name)
		}
	}
	return s.set(form.Get("profile"), values)
}

// shownFault is an injected fault and what it did.
type shownFault struct {
	Fault   string `json:"fault"` // as ParseFault reads it
	Matched int    `json:"matched"`
	Struck  int    `json:"struck"`
}

func (s *Sandbox) shownFaults() []shownFault {
	defer s.lock()()
	out := make([]shownFault, len(s.faults))
	for i, in := range s.faults {
		out[i] = shownFault{in.Fault.String(), in.matched, in.struck}
	}
	return out
}

func (s *Sandbox) faultForm(form url.Values) error {
	var f Fault
	for _, name := range slices.Sorted(maps.Keys(form)) {
		if form.Get(name) == "" { // a field of the page that was left blank
			continue
		}
		if err := f.set(name, form.Get(name)); err != nil {
			return err
		}
	}
	if err := f.Validate(); err != nil {
		return err
	}
	s.Inject(f)
	return nil
}

// FaultFields are the names beside the kind that ParseFault knows.
func FaultFields() []string {
	return []string{"method", "path", "skip", "every", "probability", "count", "status", "retry_after", "delay"}
}

// ParseFault reads a fault as people write it: its kind, then fields such as
// method=POST behind commas.
func ParseFault(text string) (Fault, error) {
	var f Fault
	kind, rest, more := strings.Cut(text, ",")
	err := f.set("kind", strings.TrimSpace(kind))
	if more {
		for part := range strings.SplitSeq(rest, ",") {
			name, value, _ := strings.Cut(part, "=")
			err = errors.Join(err, f.set(strings.TrimSpace(name), strings.TrimSpace(value)))
		}
	}
	if err != nil {
		return Fault{}, err
	}
	return f, f.Validate()
}

// String writes f as ParseFault reads it.
func (f Fault) String() string {
	out := []string{string(f.Kind)}
	add := func(name, value string) {
		if value != "" && value != "0" && value != "0s" {
			out = append(out, name+"="+value)
		}
	}
	add("method", f.Method)
	add("path", f.Path)
	add("skip", strconv.Itoa(f.Skip))
	add("every", strconv.Itoa(f.Every))
	add("probability", strconv.FormatFloat(f.Probability, 'g', -1, 64))
	add("count", strconv.Itoa(f.Count))
	add("status", strconv.Itoa(f.Status))
	add("retry_after", f.RetryAfter)
	add("delay", f.Delay.String())
	return strings.Join(out, ",")
}

func (f *Fault) set(name, value string) (err error) {
	numbers := map[string]*int{"skip": &f.Skip, "every": &f.Every, "count": &f.Count, "status": &f.Status}
	switch name {
	case "kind":
		if f.Kind = FaultKind(value); !slices.Contains(FaultKinds(), f.Kind) {
			err = f.Validate()
		}
	case "method":
		f.Method = strings.ToUpper(value)
	case "path":
		f.Path = value
	case "retry_after":
		f.RetryAfter = value
	case "delay":
		if f.Delay, err = time.ParseDuration(value); err != nil || f.Delay < 0 {
			err = refused(fmt.Sprintf("sandbox fault delay is %q: use a length of time such as 30s", value))
		}
	case "probability":
		if f.Probability, err = strconv.ParseFloat(value, 64); err != nil {
			err = refused(fmt.Sprintf("sandbox fault probability is %q: use a number from 0 to 1", value))
		}
	case "skip", "every", "count", "status":
		n, wrong := strconv.Atoi(value)
		if wrong != nil || n < 0 || name == "status" && n != 0 && (n < 400 || n > 599) {
			return refused(fmt.Sprintf("sandbox fault %s is %q: use a number of 0 or more, as status one from 400 to 599", name, value))
		}
		*numbers[name] = n
	default:
		err = refused(fmt.Sprintf("a sandbox fault has no field %q: use %s", name, strings.Join(FaultFields(), ", ")))
	}
	return err
}
