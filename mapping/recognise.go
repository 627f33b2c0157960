package mapping

import "fmt"

// Written returns how an expression names a field: as it is, or as field("…") where its
// name is no single word or means something else.
func Written(field string) string {
	if varName(field) == field && !Reserved(field) {
		return field
	}
	return fmt.Sprintf("%s(%q)", fnField, field)
}

// Country returns the two letters of a country as country gives them; false for a text that
// it does not understand.
func Country(text string) (code string, known bool) {
	code, known = readCountry(text)
	return code, known && isRegion(code)
}

// Phone returns a number as phone gives it; false for a text that is no number of the region,
// or of any country where it names one.
func Phone(text, region string) (number string, known bool) {
	number, missed := readPhone(text, region)
	return number, missed == ""
}
