package pages

import (
	"fmt"
	"strconv"
	"unicode"
	"unicode/utf8"
)

// The size of a chart. It is as wide as the narrowest screen, so its text is never smaller than the text beside it. On
// wider screens it grows.
const (
	chartWidth  = 320
	chartHeight = 168
	chartTop    = 24 // for the number over the highest bar
	chartFoot   = 24 // for the labels
)

// chart is a row of bars, and the same numbers for a table.
type chart struct {
	Title, Description string
	What, Unit         string // heads of the table
	Bars               []bar
	Width, Height      int
	Foot               int // the base line of the bars
}

// bar is a bar of a chart. Its place and size are whole numbers, so a template can write them unchanged.
type bar struct {
	Label                     string
	Count                     int
	X, Y, Width, Height       int
	Middle, NumberAt, LabelAt int
}

// newChart returns a chart of counts by their labels.
func newChart(title, description, what, unit string, labels []string, counts []int) *chart {
	c := &chart{Title: title, Description: description, What: what, Unit: unit, Width: chartWidth, Height: chartHeight,
		Foot: chartHeight - chartFoot}
	most := 1
	for _, n := range counts {
		most = max(most, n)
	}
	slot := chartWidth / len(counts)
	for i, n := range counts {
		b := bar{Label: labels[i], Count: n, X: i*slot + slot/8, Width: slot - slot/4, Middle: i*slot + slot/2,
			LabelAt: chartHeight - 6}
		b.Height = n * (chartHeight - chartTop - chartFoot) / most
		if n > 0 {
			b.Height = max(b.Height, 2) // few are not none
		}
		b.Y = c.Foot - b.Height
		b.NumberAt = b.Y - 6
		c.Bars = append(c.Bars, b)
	}
	return c
}

// boundLabels returns labels for counts up to each bound, and beyond the last.
func boundLabels(bounds []int, beyond string) (out []string) {
	from := 0
	for _, to := range bounds {
		if from == to {
			out = append(out, strconv.Itoa(to))
		} else {
			out = append(out, fmt.Sprintf("%d–%d", from, to))
		}
		from = to + 1
	}
	return append(out, beyond+strconv.Itoa(from-1))
}

// within writes a time of so many days, to a tenth of them.
func within(days float64) string {
	if days <= 1 {
		return "a day"
	}
	return strconv.FormatFloat(days, 'f', -1, 64) + " days"
}

// upper returns a text with a capital to begin with.
func upper(text string) string {
	first, size := utf8.DecodeRuneInString(text)
	return string(unicode.ToUpper(first)) + text[size:]
}
