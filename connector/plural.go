package connector

import (
	"fmt"
	"strings"
)

// Plural returns "1 thing", or "n things" for any other number.
func Plural(n int, thing string) string {
	switch {
	case n == 1:
		return "1 " + thing
	case strings.HasSuffix(thing, "s"), strings.HasSuffix(thing, "ch"):
		thing += "e"
	case strings.HasSuffix(thing, "y") && !strings.HasSuffix(thing, "ay"):
		thing = strings.TrimSuffix(thing, "y") + "ie"
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
