package httpsource

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"regexp"
	"strings"
	"testing"
	"time"

	"payersync/configs"
	"payersync/connector"
	"payersync/connector/accounting"
)

// mutations are wrong edits of a profile. Each replaces the first place of a pattern below list, record, tenant or
// errors.
var mutations = []struct{ name, from, to string }{
	{"records elsewhere", `(?m)^(  records: )(\S+)`, "${1}nothing"},
	{"tenant elsewhere", `(tenant:.*records: )([^,}\n]+)`, "${1}nothing"},
	{"tenant's id of another field", `(\ntenant: \{.*, id: |\ntenant:\n(?:  .*\n)*?  id: )([^,}\n]+)`, "${1}nothing"},
	{"tenant by another request", `(\ntenant:(?s:.*?)path: )([^\s,}]+)`, "${1}/elsewhere"},
	{"tenant by another body", `(\ntenant:\n(?:  .*\n)*?  body: .*)res\.company`, "${1}res.partner"},
	{"id of another field", `(?m)^(  id: )(\S.*)$`, "${1}nothing"},
	{"constant id", `(?m)^(  id: )(\S.*)$`, `${1}'"1"'`},
	{"first state dropped", `(?m)^    - \{when: .*, is: (active|archived|deleted)\}.*\n`, ""},
	{"first state swapped to archived", `is: active\}`, "is: archived}"},
	{"archived becomes active", `is: archived\}`, "is: active}"},
	{"deleted becomes active", `is: deleted\}`, "is: active}"},
	{"every state active", `(?m)^(    - \{when: )([^,]+|'[^']*')(, is: active\}.*)$`, "${1}1 == 1${3}"},
	{"time of another form", `(?m)^(  times: \[)([^\]]+)`, `${1}"2006"`},
	{"times of another zone", `(?m)^  zone: .*$`, "  zone: Asia/Tokyo"},
	{"no since in the request", `\$\{since\}`, "${nil}"},
	{"since in the future", `(?m)^(  since: ).*$`, `${1}"2999-01-02T15:04:05Z07:00"`},
	{"page from another number", `\$\{page \+ 1\}`, "${page}"},
	{"page from one", `\$\{page\}`, "${page + 1}"},
	{"always the first page", `\$\{page \+ 1\}`, "${1 + 0 * page}"},
	{"offset of the page", `\$\{offset\}`, "${page}"},
	{"first page is the last", `(?m)^  last: .*$`, "  last: 1 == 1"},
	{"no page is the last", `(?m)^  last: .*$`, "  last: 1 == 2"},
	{"short page as the end, by one", `(?m)^  last: rows < size$`, "  last: rows <= size"},
	{"no next page", `(?m)^  next: .*$`, "  next: nil"},
	{"key of the first page for ever", `after \?\? 0`, "0 * (after ?? 0)"},
	{"total too large", `(?m)^  total: (.*)$`, "  total: 999999"},
	{"throttle is a failure", `is: throttled`, "is: unavailable"},
	{"refusal is a failure", `is: disconnected`, "is: unavailable"},
	{"no problem", `(?m)^  problems:\n(    - .*\n)+`, ""},
	{"wrong empty", `(?m)^  empty: "false"$`, ""},
	{"404 is an error", `(?m)^  empty: status == 404.*$`, ""},
	{"misspelt field", `(?m)^    - \{name: (\w+)`, "    - {name: ${1}x"},
	{"another path", `(?m)^  path: (\S+)$`, "  path: /elsewhere"},
	{"another base", `(?m)^base: (\S+)$`, "base: https://elsewhere.example/nothing"},
	{"no errors", `(?m)^errors:\n(  - .*\n)+`, ""},
	{"write by another method", `(\nwrite:.*\n  method: )PUT`, "${1}PATCH"},
	{"write by PUT", `(\nwrite:.*\n  method: )(PATCH|POST)`, "${1}PUT"},
	{"write elsewhere", `(\nwrite:(?s:.*?)\n  path: )(\S+)`, "${1}/elsewhere"},
	{"write to one record always", `(\nwrite:(?s:.*?))\$\{(int\()?id\)?\}`, "${1}1002"},
	{"write another field", `(\nwrite:(?s:.*?)\n  body: [^\n]*)\(field\)`, `${1}"other"`},
	{"write another fixed field", `(\nwrite:(?s:.*?)\n  body: [^\n]*)paymentMethodId`, `${1}paymentTermsId`},
	{"write another value", `(\nwrite:(?s:.*?)\n  body: [^\n]*)\bvalue\b([^\n=]*\n)`, `${1}field${2}`},
	{"write no value", `(\nwrite:(?s:.*?)\n  body: [^\n]*)\bvalue\b([^\n=]*\n)`, `${1}"x" + 0 * len(value)${2}`},
	{"write without a version", `(\nwrite:(?s:.*?)\n  headers: )\{[^}]*\}\}?`, `${1}{X-Version: "${version}"}`},
	{"edited meanwhile is a refusal", `(?m)^  stale: .*$`, "  stale: 1 == 2"},
	{"no answer is a good one", `(\nwrite:(?s:.*?)\n  done: )([^\n]*)`, "${1}1 == 2"},
	{"each answer is a good one", `(\nwrite:(?s:.*?)\n  done: )([^\n]*)`, "${1}1 == 1"},
	{"read back elsewhere", `(\nwrite:(?s:.*?)\n  read:(?s:.*?)path: "?)([^\s,"]+)`, "${1}/elsewhere"},
	{"read back another field", `(\nwrite:(?s:.*?)\n?\s+value: "?)(record\[field\])`, `${1}record.other`},
	{"read back nothing", `(\nwrite:(?s:.*?)\n  read:(?s:.*?)record: )([^\s,]+)`, "${1}nothing"},
	{"refuse nothing", `(?m)^  refuse:\n(    - .*\n)+`, ""},
}

// equal are wrong edits without an effect, with the reason.
var equal = map[string]string{
	"total too large":           "a pass that met the same customers again proves the list without the count",
	"no errors":                 "the rules of every system say the same in other words; judgesAlike checks it for each status",
	"each answer is a good one": "the field is read behind each write in any case",
}

// againstModel reads the model of a system by another profile, as Check does by its own.
func (p *Profile) againstModel(ctx context.Context, system *Profile, examples []byte) (wrong string) {
	if f := p.checkExamples(ctx, examples); !f.OK {
		return f.Detail
	}
	for _, c := range p.modelChecks() {
		now := checkTime
		fake, err := NewFake(system, system.SampleConfig(), func() time.Time { return now })
		if err != nil {
			return err.Error()
		}
		t := &try{Fake: fake, now: checkTime}
		fake.Now = func() time.Time { return t.now }
		t.ids = t.Add(2*fake.source.size + 3)
		t.now = t.now.Add(time.Hour)
		if t.source, err = p.sample(fake, fake.Now); err != nil {
			return err.Error()
		}
		if err := c.try(ctx, t); err != nil {
			return c.name + ": " + err.Error()
		}
	}
	return ""
}

func TestWrongEditsOfShippedProfilesAreCaught(t *testing.T) {
	t.Parallel()
	names, err := fs.Glob(configs.FS, "sources/*/profile.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var made, caught int
	var passed []string
	for _, name := range names {
		text, err1 := fs.ReadFile(configs.FS, name)
		examples, err2 := fs.ReadFile(configs.FS, path.Join(path.Dir(name), "examples.yaml"))
		system, err3 := Load(name, text)
		if err1 != nil || err2 != nil || err3 != nil {
			t.Fatal(err1, err2, err3)
		}
		for _, m := range mutations {
			mutant := replacedOnce(string(text), m.from, m.to)
			if mutant == string(text) {
				continue
			}
			made++
			p, err := Load(name, []byte(mutant))
			if err == nil && p.againstModel(t.Context(), system, examples) == "" {
				passed = append(passed, fmt.Sprintf("%s: %s", system.Name(), m.name))
				if m.name == "no errors" && err == nil {
					judgesAlike(t, system, p)
				}
				if equal[m.name] != "" {
					made--
				}
				continue
			}
			caught++
		}
	}
	t.Logf("%d of %d wrong edits were caught; passed: %s", caught, made, strings.Join(passed, "; "))
	if 100*caught < 95*made {
		t.Errorf("%d of %d wrong edits were caught, less than 95 %%", caught, made)
	}
}

// judgesAlike checks that a profile without its rules for errors concludes the same from each status: only the words
// for people differ.
func judgesAlike(t *testing.T, with, without *Profile) {
	t.Helper()
	for status := 100; status < 600; status++ {
		var ends [2]string
		for i, p := range []*Profile{with, without} {
			s, err := p.sample(nil, func() time.Time { return checkTime })
			if err != nil {
				t.Fatal(err)
			}
			err = s.judge(t.Context(), opList, s.answerOf(accounting.Answer{Status: status, Header: http.Header{}}, nil))
			var parked *accounting.Parked
			var gone *accounting.Disconnected
			switch ends[i] = string(connector.FaultOf(err)); {
			case errors.As(err, &parked):
				ends[i] = parked.Until.String()
			case errors.As(err, &gone):
				ends[i] = "disconnected"
			}
		}
		if ends[0] != ends[1] {
			t.Errorf("%s, HTTP %d: %q with its rules for errors, and %q without", with.Name(), status, ends[0], ends[1])
		}
	}
}

// replacedOnce replaces the first place of a pattern in the part of a profile before its model of answers.
func replacedOnce(text, from, to string) string {
	head, fake, _ := strings.Cut(text, "\nfake:\n")
	re := regexp.MustCompile(from)
	at := re.FindStringSubmatchIndex(head)
	if at == nil {
		return text
	}
	return head[:at[0]] + string(re.ExpandString(nil, escapedHoles(to), head, at)) + head[at[1]:] + "\nfake:\n" + fake
}

// escapedHoles keeps the holes of profiles from being read as groups.
func escapedHoles(to string) string {
	return regexp.MustCompile(`\$\{(\D)`).ReplaceAllString(to, "$$$${$1")
}
