package mail_test

import (
	"testing"

	"payersync/connector/mail"
)

func TestAnAddressIsDeadWhereTheServerSaysSoOfTheAddress(t *testing.T) {
	t.Parallel()
	for _, status := range []string{"5.1.1", "5.1.2", "5.1.3", "5.1.6", "5.1.10", "5.2.1"} {
		if !mail.IsDeadAddress(status) {
			t.Errorf("%s leaves the address alive", status)
		}
	}
	for _, status := range []string{"", "5", "5.1", "5.0.0", "5.1.0", "5.1.4", "5.1.7", "5.1.8", "5.1.11", "5.2.0",
		"5.2.2", "5.2.3", "5.4.1", "5.7.1", "4.1.1", "4.2.1", "2.1.5"} {
		if mail.IsDeadAddress(status) {
			t.Errorf("%q makes the address dead", status)
		}
	}
}
