package match

import (
	"testing"
	"testing/quick"
)

func TestNamesAreComparedAsPeopleReadThem(t *testing.T) {
	t.Parallel()
	tests := []struct {
		a, b string
		want *rule
	}{
		{"Müller", "Mueller", &nameSame},
		{"Müller", "Muller", &nameSame},
		{"Mu\u0308ller", "MÜLLER", &nameSame},
		{"Ødegård", "Odegard", &nameSame},
		{"Ødegård", "Oedegaard", &nameSame},
		{"Ødegård", "Odegaard", &nameSame},
		{"Weiß", "Weiss", &nameSame},
		{"Łukasz Yılmaz", "Lukasz Yilmaz", &nameSame},
		{"Bjørn Sæther", "Bjorn Saether", &nameSame},
		{"Иван Петров", "ИВАН ПЕТРОВ", &nameSame},
		{"O'Brien", "O’Brien", &nameSame},
		{"O'Brien", "OBrien", &nameSame},
		{"  Anna   Müller ", "Anna Müller", &nameSame},
		{"Meier & Söhne", "Meier und Soehne", &nameSame},
		{"Hansen og Olsen", "Hansen + Olsen", &nameSame},
		{"Smith, Brown and Reed", "Smith Brown & Reed", &nameSame},
		{"Nordwind GmbH", "Nordwind Gesellschaft mit beschränkter Haftung", &nameSame},
		{"Nordwind GmbH", "Nordwind AG", &nameSame}, // and the forms are told by themselves

		{"Anna Müller", "Müller, Anna", &nameOrder},
		{"Bau Meier", "Meier Bau", &nameOrder},
		{"Nordwind", "Nord Wind", &nameSpaces},
		{"Klein-Schmidt", "Kleinschmidt", &nameSpaces},
		{"A. Müller", "Anna Müller", &nameInitial},
		{"J. R. Smith", "John Robert Smith", &nameInitial},
		{"Anna Muller", "Anna Mueller", &nameTypo},
		{"Thomas Meyer", "Thomsa Meyer", &nameTypo},
		{"Michael Schmidt", "Micheal Schmitd", &nameTypo},
		{"Anna Müller", "Anne Müller", &nameTypo}, // twins, which is why a typo is never accepted in bulk
		{"Nordwind", "Nordwind Holding", &namePart},
		{"Smith", "John Smith", &namePart},
		{"Atlas Bau Hamburg Nord", "Atlas Bau Hamburg Süd", &nameSimilar},
		{"Anna Müller", "Peter Müller", &nameWord},
		{"Bauer", "Baur", &nameTypo},
		{"Jan Meyer", "Jo Schulz", &nameDiffers},
		{"Solar I", "Solar II", &nameWord},
		{"House 12", "House 13", &nameWord},
		{"WEG 12", "WEG 21", &nameWord},
		{"", "Anna", &nameDiffers},
		{"&", "+", &nameSame},
		{"Smith & Brown", "Meyer & Koch", &nameDiffers},
	}
	for _, tt := range tests {
		a, b := newName(tt.a), newName(tt.b)
		for _, got := range []*rule{a.likeness(&b), b.likeness(&a)} {
			if got != tt.want {
				t.Errorf("%q and %q: %s, want %s", tt.a, tt.b, got.code, tt.want.code)
			}
		}
	}
}

func TestLegalFormsAreKnownHoweverTheyAreSpelt(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, form, rest string }{
		{"Nordwind G.m.b.H.", "gmbh", "nordwind"},
		{"Nordwind GmbH & Co. KG", "gmbhcokg", "nordwind"},
		{"Nordwind GmbH und Co KG", "gmbhcokg", "nordwind"},
		{"Nordwind GmbH+Co.KG", "gmbhcokg", "nordwind"},
		{"Meier & Co. KG", "cokg", "meier"},
		{"Nordwind UG (haftungsbeschraenkt)", "ug", "nordwind"},
		{"Nordwind e. K.", "ek", "nordwind"},
		{"Nordwind Bau GmbH, Hamburg", "gmbh", "nordwindbauhamburg"},
		{"Bygg A/S", "as", "bygg"},
		{"Bygg Aksjeselskap", "as", "bygg"},
		{"Bygg ASA", "asa", "bygg"},
		{"AB Volvo", "ab", "volvo"},
		{"Rakennus Oy Ab", "oy", "rakennus"},
		{"Quayside Ltd.", "ltd", "quayside"},
		{"Quayside Limited", "ltd", "quayside"},
		{"Quayside Public Limited Company", "plc", "quayside"},
		{"Molen B.V.", "bv", "molen"},
		{"Soleil S.à r.l.", "sarl", "soleil"},
		{"SARL Soleil", "sarl", "soleil"},
		{"Acme, Inc.", "inc", "acme"},
		{"GmbH", "", "gmbh"}, // a name of nothing else
		{"Kim Agnes", "", "kimagnes"},
		{"Ole Aas", "", "oleaas"},
		{"Nordwind Gesellschaft mit beschraenkter Haftung", "gmbh", "nordwind"},
	}
	for _, tt := range tests {
		if n := newName(tt.name); n.form != tt.form || n.together != tt.rest {
			t.Errorf("%q: form %q of %q, want %q of %q", tt.name, n.form, n.together, tt.form, tt.rest)
		}
	}
}

func TestJuniorAndSeniorAreNoPartOfTheName(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"Hans Müller jun.": "junior", "Hans Müller d. J.": "junior", "Müller jr., Hans": "junior",
		"Hans Müller Senior": "senior", "Hans Müller d.Ä.": "senior",
		"Hans Müller": "", "Ana Da Silva": "", "Junior Müller": "",
	} {
		if n := newName(text); n.generation != want {
			t.Errorf("%q: %q, want %q", text, n.generation, want)
		}
	}
}

func TestAnyTextIsAName(t *testing.T) {
	t.Parallel()
	if err := quick.Check(func(a, b string) bool {
		x, y := newName(a), newName(b)
		// pairs of words may be made otherwise from the other side
		return x.likeness(&y) == y.likeness(&x) || x.likeness(&y).limit > 0
	}, nil); err != nil {
		t.Error(err)
	}
}

func TestANameIsTheSameApartFromItsLegalForm(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		ours, theirs string
		same         bool
		apart        string
	}{
		{"Tideswell Bakery Ltd", "Tideswell Bakery Limited", true, "Ltd"},
		{"Tideswell Bakery", "TIDESWELL BAKERY Ltd.", true, "Ltd"},
		{"Tideswell Bakery Ltd", "Tideswell Bakery ltd", true, ""},
		{"Müller & Söhne GmbH & Co. KG", "Mueller und Soehne", true, "GmbH & Co KG"},
		{"Müller & Söhne", "Mueller und Soehne", true, ""},
		{"Tideswell Bakery Ltd", "Tideswell Bakery LLP", false, ""},
		{"Karl Huber jun.", "Karl Huber", false, ""},
		{"Bakery Tideswell", "Tideswell Bakery", false, ""},
		{"Tideswell Bakery Ltd", "Tideswell Cakes Ltd", false, ""},
		{"Harbour House 1 Ltd", "Harbour House 2 Ltd", false, ""},
		{"", "", false, ""},
	} {
		for range 2 {
			if same, apart := SameName(c.ours, c.theirs); same != c.same || (apart == "") != (c.apart == "") {
				t.Errorf("%q and %q are the same: %t, apart from %q; want %t, %q", c.ours, c.theirs, same, apart, c.same, c.apart)
			}
			c.ours, c.theirs = c.theirs, c.ours
		}
		if _, apart := SameName(c.ours, c.theirs); apart != c.apart {
			t.Errorf("%q and %q are the same apart from %q, want %q", c.ours, c.theirs, apart, c.apart)
		}
	}
}
