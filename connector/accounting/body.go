package accounting

import (
	"bytes"
	"encoding/json"
	"strings"
)

// NotJSON names the kind of an answer's body, for people, if it is no JSON object or list: "a web page",
// "XML", "nothing", "other text". For JSON it returns "". Some systems send an error page with status 200, or
// XML although JSON was asked for; the body itself is never shown.
func NotJSON(body []byte) string {
	text := bytes.TrimSpace(body)
	start := strings.ToLower(string(text[:min(len(text), 100)]))
	switch {
	case start == "":
		return "nothing"
	case (start[0] == '{' || start[0] == '[') && json.Valid(text):
		return ""
	case strings.HasPrefix(start, "<!doctype html"), strings.HasPrefix(start, "<html"):
		return "a web page"
	case strings.HasPrefix(start, "<"):
		return "XML"
	case start[0] == '{' || start[0] == '[':
		return "JSON that is cut off"
	}
	return "other text"
}
