package httpsource

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"
	"testing"
	"time"

	"payersync/configs"
)

// mutations are wrong edits of a profile. Each replaces the first place of a pattern below list, record, tenant or
// errors.
var mutations = []struct{ name, from, to string }{
	{"records elsewhere", `(?m)^(  records: )(\S+)`, "${1}nothing"},
	{"tenant elsewhere", `(tenant:.*records: )([^,}\n]+)`, "${1}nothing"},
	{"tenant's id of another field", `(tenant:(?s:.*?)\bid: )([^,}\n]+)`, "${1}nothing"},
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
	{"refuse nothing", `(?m)^  refuse:\n(    - .*\n)+`, ""},
}

// equal are wrong edits without an effect, with the reason.
var equal = map[string]string{
	"total too large": "a pass that met the same customers again proves the list without the count",
	"no errors":       "the rules of every system say the same in other words",
}

// againstModel reads the model of a system by another profile, as Check does by its own.
func (p *Profile) againstModel(ctx context.Context, system *Profile, examples []byte) (wrong string) {
	if f := p.checkExamples(ctx, examples); !f.OK {
		return f.Detail
	}
	for _, c := range modelChecks {
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
