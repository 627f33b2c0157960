package pages

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// tokens are the colours of one scheme, as style.css names them.
type tokens map[string]string

var token = regexp.MustCompile(`--([a-z-]+): (#[0-9a-f]{6});`)

// schemes returns the colours by day and by night from the style that is served.
func schemes(t *testing.T) (day, night tokens) {
	t.Helper()
	css, err := web.ReadFile("web/style.css")
	if err != nil {
		t.Fatal(err)
	}
	before, after, ok := strings.Cut(string(css), "@media (prefers-color-scheme: dark)")
	if !ok {
		t.Fatal("style.css has no dark scheme")
	}
	read := func(text string) tokens {
		out := tokens{}
		block, _, _ := strings.Cut(text[strings.Index(text, ":root {"):], "}")
		for _, m := range token.FindAllStringSubmatch(block, -1) {
			out[m[1]] = m[2]
		}
		return out
	}
	return read(before), read(after)
}

// contrast is the ratio of two colours as WCAG 2 defines it, 1 to 21.
func contrast(t *testing.T, a, b string) float64 {
	t.Helper()
	light := func(colour string) float64 {
		sum := 0.0
		for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
			n, err := strconv.ParseUint(colour[1+2*i:3+2*i], 16, 8)
			if err != nil {
				t.Fatal(err)
			}
			c := float64(n) / 255
			if c <= 0.04045 {
				c /= 12.92
			} else {
				c = math.Pow((c+0.055)/1.055, 2.4)
			}
			sum += weight * c
		}
		return sum
	}
	x, y := light(a), light(b)
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

// Text has a contrast of 4.5 to 1 or more, edges of controls 3 to 1. It is computed from the colours, because
// page checkers cannot judge text in charts.
func TestColoursCanBeReadByDayAndByNight(t *testing.T) {
	day, night := schemes(t)
	if len(day) == 0 || len(day) != len(night) {
		t.Fatalf("%d colours by day, %d by night", len(day), len(night))
	}
	pairs := []struct {
		text, ground string
		least        float64
	}{
		{"text", "ground", 4.5}, {"text", "raised", 4.5}, {"muted", "ground", 4.5}, {"muted", "raised", 4.5},
		{"link", "ground", 4.5}, {"link", "raised", 4.5}, {"on-link", "link", 4.5}, {"border", "ground", 3},
		{"border", "raised", 3},
	}
	for _, kind := range []string{good, waits, stopped, bank, none} {
		pairs = append(pairs, struct {
			text, ground string
			least        float64
		}{kind, kind + "-tint", 4.5}, struct {
			text, ground string
			least        float64
		}{kind, "ground", 4.5})
	}
	for name, scheme := range map[string]tokens{"day": day, "night": night} {
		for _, p := range pairs {
			text, ground := scheme[p.text], scheme[p.ground]
			if text == "" || ground == "" {
				t.Errorf("%s: there is no colour for %s on %s", name, p.text, p.ground)
			} else if got := contrast(t, text, ground); got < p.least {
				t.Errorf("%s: %s on %s has a contrast of %s, and needs %g", name, p.text, p.ground, fmt.Sprintf("%.2f", got),
					p.least)
			}
		}
	}
}

// An unclosed rule disables all later ones, and no browser complains.
func TestTheStyleIsWhole(t *testing.T) {
	css, err := web.ReadFile("web/style.css")
	if err != nil {
		t.Fatal(err)
	}
	if opened, closed := strings.Count(string(css), "{"), strings.Count(string(css), "}"); opened != closed {
		t.Errorf("style.css opens %d blocks and closes %d", opened, closed)
	}
}
