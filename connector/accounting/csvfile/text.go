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

// encodings are the encodings that can be set. UTF-8 is passed through as it is,
// so that what is not valid can be told row by row.
var encodings = map[string]encoding.Encoding{
	"utf-8":        encoding.Nop,
	"utf-16le":     unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM),
	"utf-16be":     unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM),
	"windows-1252": charmap.Windows1252,
	"iso-8859-15":  charmap.ISO8859_15,
	"macintosh":    charmap.Macintosh,
}

func checkEncoding(name string) error {
	if name == "" || name == autoDetect || encodings[name] != nil {
		return nil
	}
	names := slices.Sorted(maps.Keys(encodings))
	return fmt.Errorf("csv source: encoding %q is not known%s; use one of %s, or leave it out",
		name, didYouMean(name, names), strings.Join(names, ", "))
}

// markedEncoding names the encoding of text that starts with a byte order mark,
// "" of other text.
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

// detectEncoding names the encoding of text without a byte order mark. Text that
// was meant as UTF-8 and is damaged in places must not be read as Windows-1252,
// which would take every byte, so the more frequent of the two wins.
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

// decode returns r as UTF-8 without byte order mark. Bytes that are no text come
// out as U+FFFD, or in UTF-8 as they are.
func decode(r io.Reader, name string) io.Reader {
	return transform.NewReader(r, unicode.BOMOverride(encodings[name].NewDecoder()))
}

// garbled reports whether s holds bytes that were no text, or text that was lost
// before it came here.
func garbled(s string) bool { return strings.ContainsRune(s, utf8.RuneError) }
