package connector

import "strings"

// Nearest returns the known word closest to a misspelt one, and "" if none is near: at most one error in three letters,
// ignoring case. Two swapped letters count as one error. Fields, columns, keys and flags all use it, so every message
// guesses alike.
func Nearest(word string, known []string) string {
	best, found := len([]rune(word))/3+1, ""
	for _, k := range known {
		if strings.EqualFold(word, k) {
			return k
		}
		if n := slips([]rune(strings.ToLower(word)), []rune(strings.ToLower(k)), best); n < best {
			best, found = n, k
		}
	}
	return found
}

// slips counts the insertions, deletions, replacements and swaps of neighbours between a and b. It stops counting if
// their lengths differ by more than limit.
func slips(a, b []rune, limit int) int {
	if d := len(a) - len(b); d > limit || -d > limit {
		return limit + 1
	}
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			row[j] = last[j-1]
			if a[i-1] != b[j-1] {
				row[j] = 1 + min(last[j], row[j-1], last[j-1])
			}
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
