package mapping

import "fmt"

// Written returns the field's name in an expression: unchanged, or as field("…") if it has several words or is
// reserved.
func Written(field string) string {
	if varName(field) == field && !Reserved(field) {
		return field
	}
	return fmt.Sprintf("%s(%q)", fnField, field)
}

// Country returns the two-letter code of a country like the function country; false for an unknown text.
func Country(text string) (code string, known bool) {
	code, known = readCountry(text)
	return code, known && isRegion(code)
}

// Phone returns a number like the function phone. It returns false for a text other than a number of the region, or of
// the country in the number.
func Phone(text, region string) (number string, known bool) {
	number, missed := readPhone(text, region)
	return number, missed == ""
}
