package strict

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

type layered struct {
	Under  string    `yaml:"under"`
	Level  string    `yaml:"level" jsonschema:"enum=debug,enum=info"`
	Fields []element `yaml:"fields"`
	Inner  inner     `yaml:"inner"`
}

type element struct {
	Name string `yaml:"name"`
	Is   string `yaml:"is"`
}

type inner struct {
	A    int      `yaml:"a" jsonschema:"minimum=1"`
	B    int      `yaml:"b"`
	List []string `yaml:"list"`
}

func overBase(text string) (layered, *Doc, error) {
	const base = `level: info
fields: [{name: id, is: the id}, {name: mail}]
inner: {a: 1, b: 2, list: [x, y]}
`
	return LoadOver("own.yaml", []byte(text), layered{}, Over{Key: "under", ByName: []Path{{"fields"}},
		Read: func(name string) ([]byte, error) {
			if name != "base" {
				return nil, errors.New("there is no file of that name")
			}
			return []byte(base), nil
		}})
}

func TestAFileWrittenOverAnotherGivesOnlyWhatDiffers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text string
		want layered
	}{
		"nothing differs": {"under: base\n", layered{"base", "info", []element{{"id", "the id"}, {"mail", ""}},
			inner{1, 2, []string{"x", "y"}}}},
		"a value": {"under: base\nlevel: debug\n", layered{"base", "debug", []element{{"id", "the id"}, {"mail", ""}},
			inner{1, 2, []string{"x", "y"}}}},
		"inside a block, and a list": {"under: base\ninner: {b: 3, list: [z]}\n",
			layered{"base", "info", []element{{"id", "the id"}, {"mail", ""}}, inner{1, 3, []string{"z"}}}},
		"elements by their names": {"under: base\nfields: [{name: vat}, {name: id, is: another}]\n",
			layered{"base", "info", []element{{"id", "another"}, {"mail", ""}, {"vat", ""}}, inner{1, 2, []string{"x", "y"}}}},
		"another file is not named": {"level: debug\n", layered{Level: "debug"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, _, err := overBase(c.text)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAProblemOfAFileWrittenOverAnotherHasItsPlace(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text, want string
		line       int
	}{
		"a wrong value":   {"level: loud\nunder: base\n", "level cannot be", 1},
		"an unknown file": {"level: info\nunder: bass\n", "there is no file of that name", 2},
		"an unknown key":  {"under: base\ninner:\n  c: 3\n", `unknown key "c"`, 3},
		"another kind":    {"under: base\n\ninner: [1]\n", "inner must be", 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, _, err := overBase(c.text)
			var all *Error
			if !errors.As(err, &all) || !strings.Contains(err.Error(), c.want) || all.Problems[0].Line != c.line ||
				all.Problems[0].File != "own.yaml" {
				t.Errorf("it is %v", err)
			}
		})
	}
}

func TestAProblemWithWhatIsInheritedStandsAtTheNameOfItsFile(t *testing.T) {
	t.Parallel()
	_, doc, err := overBase("level: debug\nunder: base # the rest\n")
	if err != nil || !doc.Inherited(Path{"inner", "a"}) || doc.Inherited(Path{"level"}) {
		t.Fatalf("%v, or it is not known what was inherited", err)
	}
	for _, p := range []Problem{doc.Problem(Path{"fields", "0", "is"}, "it is wrong"),
		doc.TextProblem(Path{"fields", "0", "is"}, 4, 2, "it is wrong"), doc.KeyProblem(Path{"inner", "a"}, "it is wrong")} {
		if p.Line != 2 || p.Column != 8 || p.Message != "it is wrong (inherited from base)" ||
			p.Source != "under: base # the rest" {
			t.Errorf("the problem is %+v", p)
		}
	}
	if doc.Instead(Path{"fields", "0", "is"}, "x")+doc.KeyInstead(Path{"inner", "a"}, "b") != "" {
		t.Error("a line is proposed for a value that is in another file")
	}
}

// A block with many keys is looked up in another way.
func TestLargeBlocksAreWrittenOver(t *testing.T) {
	t.Parallel()
	var own, other strings.Builder
	for i := range 80 {
		own.WriteString("k" + Path{}.Index(i)[0] + ": own\n")
		other.WriteString("k" + Path{}.Index(i + 40)[0] + ": other\n")
	}
	got, doc, err := LoadOver("own.yaml", []byte(own.String()+"under: base\n"), map[string]string{},
		Over{Key: "under", Read: func(string) ([]byte, error) { return []byte(other.String()), nil }})
	if err != nil || len(got) != 121 || got["k40"] != "own" || got["k79"] != "own" || got["k80"] != "other" ||
		!doc.Inherited(Path{"k119"}) {
		t.Errorf("%v: %v", err, got)
	}
}
