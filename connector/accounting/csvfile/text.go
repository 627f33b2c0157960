package csvfile

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"
)

const autoDetect = "auto"

// encodings are the encodings allowed in the configuration. UTF-8 passes as it is, so invalid bytes are
// reported row by row.
var encodings = map[string]encoding.Encoding{
	"utf-8":        encoding.Nop,
	"utf-16le":     unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM),
	"utf-16be":     unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM),
	"windows-1252": charmap.Windows1252,
	"iso-8859-15":  charmap.ISO8859_15,
	"macintosh":    charmap.Macintosh,
	"cp850":        charmap.CodePage850,
	"cp437":        charmap.CodePage437,
	"utf-8-twice":  encoding.Nop, // decode undoes the second encoding
}

func checkEncoding(name string) error {
	if name == "" || name == autoDetect || encodings[name] != nil {
		return nil
	}
	names := slices.Sorted(maps.Keys(encodings))
	return fmt.Errorf("csv source: encoding %q is not known%s; use one of %s, or omit it",
		name, didYouMean(name, names), strings.Join(names, ", "))
}

// markedEncoding names the encoding of text with a byte order mark, "" of other text.
func markedEncoding(start []byte) string {
	switch {
	case bytes.HasPrefix(start, []byte("\xEF\xBB\xBF")):
		return "utf-8"
	case bytes.HasPrefix(start, []byte("\xFF\xFE")):
		return "utf-16le"
	case bytes.HasPrefix(start, []byte("\xFE\xFF")):
		return "utf-16be"
	}
	return ""
}

// detectEncoding names the encoding of text without a byte order mark. Damaged UTF-8 must not be read as
// Windows-1252, which accepts every byte. So the more frequent of the two wins.
func detectEncoding(r io.Reader) (string, error) {
	in := bufio.NewReaderSize(r, 64<<10)
	wide, invalid := 0, 0
	for {
		c, size, err := in.ReadRune()
		switch {
		case errors.Is(err, io.EOF):
			if invalid > wide {
				return "windows-1252", nil
			}
			return "utf-8", nil
		case err != nil:
			return "", err
		case size > 1:
			wide++
		case c == utf8.RuneError:
			invalid++
		}
	}
}

// decode returns r as UTF-8 without byte order mark. Invalid bytes become U+FFFD, or stay as they are in
// UTF-8.
func decode(r io.Reader, name string) io.Reader {
	text := transform.NewReader(r, unicode.BOMOverride(encodings[name].NewDecoder()))
	if name == "utf-8-twice" {
		return transform.NewReader(text, encodedOnce{})
	}
	return text
}

// encodedOnce restores UTF-8 that was mistaken for Windows-1252 and encoded again. Letters encoded once stay
// as they are.
type encodedOnce struct{ transform.NopResetter }

// Transform implements transform.Transformer.
func (encodedOnce) Transform(dst, src []byte, atEOF bool) (nDst, nSrc int, err error) {
	for nSrc < len(src) {
		text, size := src[nSrc:nSrc+1], 1
		if src[nSrc] >= utf8.RuneSelf {
			if !atEOF && len(src)-nSrc < 4*utf8.UTFMax {
				return nDst, nSrc, transform.ErrShortSrc
			}
			if text, size = onceEncoded(src[nSrc:]); size == 0 {
				_, size = utf8.DecodeRune(src[nSrc:])
				text = src[nSrc : nSrc+size]
			}
		}
		if len(dst)-nDst < len(text) {
			return nDst, nSrc, transform.ErrShortDst
		}
		nDst += copy(dst[nDst:], text)
		nSrc += size
	}
	return nDst, nSrc, nil
}

// onceEncoded returns the letter encoded twice at the beginning of text, and its size in bytes; 0 when there
// is none.
func onceEncoded(text []byte) (letter []byte, size int) {
	var inner [utf8.UTFMax]byte
	for n := range inner {
		r, width := utf8.DecodeRune(text[size:])
		b, ok := charmap.Windows1252.EncodeRune(r)
		if !ok || b < utf8.RuneSelf || n == 0 && !utf8.RuneStart(b) {
			return nil, 0
		}
		inner[n], size = b, size+width
		if utf8.FullRune(inner[:n+1]) {
			if r, _ := utf8.DecodeRune(inner[:n+1]); r == utf8.RuneError {
				return nil, 0
			}
			return inner[:n+1], size
		}
	}
	return nil, 0
}

// encodedTwice reports whether most letters beyond ASCII in text are UTF-8 encoded twice.
func encodedTwice(text []byte) bool {
	twice, once := 0, 0
	for len(text) > 0 {
		if text[0] < utf8.RuneSelf {
			text = text[1:]
			continue
		}
		_, size := onceEncoded(text)
		if size == 0 {
			once++
			_, size = utf8.DecodeRune(text)
		} else {
			twice++
		}
		text = text[size:]
	}
	return twice > once
}

// garbled reports whether s holds invalid bytes, or text lost before it came here.
func garbled(s string) bool { return strings.ContainsRune(s, utf8.RuneError) }
