package mail

// IsDeadAddress reports whether the enhanced status of a refusal (RFC 3463), as in 5.1.1, says
// that the recipient's address takes no mail and will not: it does not exist, has moved or is
// disabled. Any other says nothing of it: not that a mailbox is full (5.2.2), that the name fits
// several (5.1.4), or what is about our own address (5.1.7, 5.1.8), the mail or how it is sent.
func IsDeadAddress(enhanced string) bool {
	switch enhanced {
	case "5.1.1", "5.1.2", "5.1.3", "5.1.6", "5.1.10", "5.2.1":
		return true
	}
	return false
}
