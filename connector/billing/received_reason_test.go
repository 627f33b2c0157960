package billing

import (
	"net/http"
	"strings"
	"testing"
)

// covers F284
func TestARefusalOfARecordIsExplainedWithoutItsValues(t *testing.T) {
	t.Parallel()
	h := http.Header{"Content-Type": {"application/json"}}
	for body, want := range map[string]string{
		`{"message":"people[0].email must be a well-formed email address"}`:                          `people[0].email must be a well-formed email address`,
		`{"message":"The email bob@moss.example is not valid"}`:                                      `The email … is not valid`,
		`{"errors":[{"field":"addresses[0].postCode","message":"must not be blank"},{"field":"x"}]}`: `addresses[0].postCode must not be blank`,
		`{"error":{"code":"invalid","message":"name size must be between 1 and 100"}}`:               `name size must be between 1 and 100`,
		`{"detail":"A customer with the name Bob Moss already exists"}`:                              `A customer with the name … already exists`,
		`{"violations":[{"path":"name","message":"Élodie O'Hara is too long"}]}`:                     `name … is too long`,
		`{"message":"Moss, Bob: 12345678"}`:                                                          "",
		`{"message":"4 Hay Road, Leeds"}`:                                                            "",
		`{"title":"Unprocessable Entity"}`:                                                           "Unprocessable Entity",
		`{"errors":["phone 07700900123 is not supported"]}`:                                          "phone … is not supported",
	} {
		got := explained("refused", false, h, []byte(body))
		if want != "" && !strings.HasSuffix(got, `; it says "`+want+`"`) || want == "" && got != "refused" {
			t.Errorf("of %s it says %s, want %q", body, got, want)
		}
	}
}
