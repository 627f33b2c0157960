package connector

import "encoding/json"

// TokenErrorCode returns the error code of a token endpoint's answer, as invalid_grant. code is what the OAuth library
// read. It goes by the answer's type, and some systems send their JSON as plain text, so the body is read for it too.
func TokenErrorCode(code string, body []byte) string {
	var said struct {
		Error string `json:"error"`
	}
	if code != "" || json.Unmarshal(body, &said) != nil {
		return code
	}
	return said.Error
}
