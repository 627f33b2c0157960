package billing

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The bounds of foreign JSON (fault F90). Its readers bound the size: transport for answers, the server for deliveries.
const (
	maxDepth = 32
	maxKeys  = 2000
)

var (
	errNotUTF8   = errors.New("the text is not UTF-8")
	errNotJSON   = errors.New("it is not one JSON value")
	errTooDeep   = fmt.Errorf("it is nested deeper than %d levels", maxDepth)
	errTooMany   = fmt.Errorf("an object has more than %d keys", maxKeys)
	errKeyTwice  = errors.New("an object has the same key twice")
	errNotObject = errors.New("it is not a JSON object")
	errNotArray  = errors.New("it is not a JSON array")
)

// checkJSON returns the reason not to decode body. encoding/json would take the last of two equal keys, match keys
// across case, repair broken text and follow ten thousand levels. Errors do not name keys, because they may be
// personal.
func checkJSON(body []byte) error {
	if !utf8.Valid(body) {
		return errNotUTF8
	}
	if !json.Valid(body) {
		return errNotJSON
	}
	return walkJSON(body)
}

// frame is one open object or array of the walk.
type frame struct {
	object bool
	atKey  bool            // the next string is a key
	few    []string        // its first keys
	more   map[string]bool // the others, folded
}

// fewKeys is how many keys of an object are compared one by one, which needs no map.
const fewKeys = 16

func (f *frame) add(key string) error {
	switch {
	case slices.ContainsFunc(f.few, func(k string) bool { return strings.EqualFold(k, key) }), len(f.more) > 0 &&
		f.more[foldKey(key)]:
		return errKeyTwice
	case len(f.few)+len(f.more) == maxKeys:
		return errTooMany
	case len(f.few) < fewKeys:
		f.few = append(f.few, key)
		return nil
	case f.more == nil:
		f.more = make(map[string]bool)
	}
	f.more[foldKey(key)] = true
	return nil
}

// walkJSON checks depth and keys of valid JSON.
func walkJSON(text []byte) error {
	var open []frame
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '{', '[':
			if len(open) == maxDepth {
				return errTooDeep
			}
			open = append(open, frame{object: text[i] == '{', atKey: text[i] == '{'})
		case '}', ']':
			open = open[:len(open)-1]
		case ',':
			open[len(open)-1].atKey = open[len(open)-1].object
		case '"':
			end := stringEnd(text, i)
			if len(open) > 0 && open[len(open)-1].atKey {
				top := &open[len(open)-1]
				top.atKey = false
				if err := top.add(unquote(text[i:end])); err != nil {
					return err
				}
			}
			i = end - 1
		}
	}
	return nil
}

// stringEnd returns the index after the string starting at i.
func stringEnd(text []byte, i int) int {
	for i++; text[i] != '"'; i++ {
		if text[i] == '\\' {
			i++
		}
	}
	return i + 1
}

// unquote returns the text of a valid JSON string.
func unquote(quoted []byte) string {
	if inner := string(quoted[1 : len(quoted)-1]); !strings.Contains(inner, `\`) {
		return inner
	}
	var out string
	_ = json.Unmarshal(quoted, &out) // the string is valid
	return out
}

// foldKey returns the same text for keys encoding/json would match with one field. It replaces each rune by the
// smallest one in its case folding.
func foldKey(key string) string {
	return strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' {
			return r - 'a' + 'A'
		}
		if r < utf8.RuneSelf {
			return r
		}
		smallest := r
		for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
			smallest = min(smallest, next)
		}
		return smallest
	}, key)
}
