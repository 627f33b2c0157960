package mail

// IsDeadAddress reports whether the enhanced status of a refusal (RFC 3463), as in 5.1.1, means a dead
// address: it does not exist, has moved or is disabled. Other statuses do not: a full mailbox (5.2.2), an
// ambiguous name (5.1.4), and those about our own address (5.1.7, 5.1.8), the mail or its transport.
func IsDeadAddress(enhanced string) bool {
	switch enhanced {
	case "5.1.1", "5.1.2", "5.1.3", "5.1.6", "5.1.10", "5.2.1":
		return true
	}
	return false
}
