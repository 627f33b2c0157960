package csvfile

import (
	"bytes"
	"errors"
	"io"
	"math"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/encoding/charmap"
)

// sniffedBytes is how much of a file is read to choose between single-byte encodings.
const sniffedBytes = 4 << 20

// start returns how the file begins, unless it is no text of lines.
func (e *export) start() ([]byte, error) {
	if err := e.rewind(); err != nil {
		return nil, e.unreadable(err)
	}
	start := make([]byte, 4<<10)
	n, err := io.ReadFull(e.file, start)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, e.unreadable(err)
	}
	return start[:n], e.checkKind(start[:n])
}

// guessEncoding names the encoding: by a byte order mark, else UTF-16 if every other byte is zero, else UTF-8
// if the file is valid. Otherwise it is the one whose letters fit the languages in lettersInUse best.
// doubtful are letters outside of them.
func (e *export) guessEncoding(start []byte) (name, doubtful string, err error) {
	if marked := markedEncoding(start); marked != "" {
		return marked, "", nil
	}
	if wide := unmarkedUTF16(start); wide != "" {
		return wide, "", nil
	}
	if bytes.IndexByte(start, 0) >= 0 {
		return "", "", e.fail("it holds bytes that are no text", "save it from its program as CSV UTF-8", nil)
	}
	if name, err = e.chooseEncoding(autoDetect, start); err != nil {
		return name, "", err
	}
	if err := e.rewind(); err != nil {
		return "", "", e.unreadable(err)
	}
	sample, err := io.ReadAll(io.LimitReader(e.file, sniffedBytes))
	if err != nil {
		return "", "", e.unreadable(err)
	}
	switch {
	case name == "utf-8" && encodedTwice(sample):
		return "utf-8-twice", "", nil
	case name == "utf-8":
		return name, "", nil
	}
	name, doubtful = singleByte(sample)
	return name, doubtful, nil
}

// unmarkedUTF16 returns the byte order of text if every other byte is zero.
func unmarkedUTF16(start []byte) string {
	zeros := [2]int{}
	for i, b := range start {
		if b == 0 {
			zeros[i%2]++
		}
	}
	switch {
	case zeros[1]*10 > len(start)*3 && zeros[0] == 0:
		return "utf-16le"
	case zeros[0]*10 > len(start)*3 && zeros[1] == 0:
		return "utf-16be"
	}
	return ""
}

// lettersInUse are the letters and signs beyond ASCII in names and addresses of Western Europe.
const lettersInUse = "ÄÖÜäöüßẞÀÂÇÈÉÊËÎÏÔŒÙÛŸàâçèéêëîïôœùûÿÁÍÓÚÑáíóúñÌÒìòÃÕãõÅåÆæØøŠšŽž" + "€£§°’‘“”„–—…«»·ºª®©²³½¡¿" +
	"\u00a0"

// singleByte returns the single-byte encoding with the best sense; of equal ones, windows-1252. doubtful are
// the letters without sense.
func singleByte(text []byte) (name, doubtful string) {
	most := math.MinInt
	for _, candidate := range []string{"windows-1252", "iso-8859-15", "macintosh", "cp850", "cp437"} {
		if good, odd := sense(text, candidate); good > most {
			name, doubtful, most = candidate, odd, good
		}
	}
	return name, doubtful
}

// sense scores the usual letters beyond ASCII of text in an encoding, and returns a few of the others.
func sense(text []byte, encoding string) (good int, odd string) {
	table := encodings[encoding].(*charmap.Charmap)
	before := ' '
	for i, b := range text {
		r, after := table.DecodeByte(b), ' '
		if i+1 < len(text) {
			after = table.DecodeByte(text[i+1])
		}
		switch {
		case b < utf8.RuneSelf:
		case inUse(before, r, after) && strings.ContainsRune(commonLetters, r):
			good += 2
		case inUse(before, r, after):
			good++
		default:
			good -= 2
			if len(odd) < 20 && !strings.ContainsRune(odd, r) && unicode.IsPrint(r) {
				odd += string(r)
			}
		}
		before = r
	}
	return good, odd
}

// commonLetters are the frequent ones of lettersInUse.
const commonLetters = "ÄÖÜäöüßàçèéêëâôùáíóúñìòãõåæø"

// inUse reports whether a letter may stand between two others. Odd are a capital inside a word of small
// letters, rare signs, and ½ or a quotation mark within a word.
func inUse(before, r, after rune) bool {
	inWord := unicode.IsLetter(before)
	switch {
	case !strings.ContainsRune(lettersInUse, r), r == '½' && inWord:
		return false
	case unicode.IsUpper(r):
		return !unicode.IsLower(before) && !(inWord && unicode.IsLower(after))
	case strings.ContainsRune("‘“”„«»…–—°ºª§€", r):
		return !inWord || !unicode.IsLetter(after)
	}
	return true
}
