package state

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"payersync/connector"
)

// MessageKind is a kind of messages that package outbox sends.
type MessageKind string

// The kinds of messages. Their names are part of the names of lock files.
const (
	MessageAlarm     MessageKind = "alarms"
	MessageLetter    MessageKind = "letters"
	MessageWriteback MessageKind = "writeback"
)

// TryOutbox takes the lock for sending messages of a kind. It returns nil when another process on this machine holds
// it. The holder knows that messages marked as being sent belong to a dead process.
func (l *Ledger) TryOutbox(kind MessageKind) (*Lock, error) {
	k, err := l.below.tryLock(context.Background(), kind.lock())
	return k, connector.Wrap(err, "lock the ledger for sending %s", string(kind))
}

func (k MessageKind) lock() string { return "." + string(k) + lockEnding }

// MessageState is the state of a message.
type MessageState string

// The states of a message.
const (
	MessageFrozen   MessageState = "frozen"   // its bytes are kept, and none has left
	MessageSending  MessageState = "sending"  // its first byte may have left
	MessageSent     MessageState = "sent"     // the receiver took it
	MessageRefused  MessageState = "refused"  // the receiver will not take it
	MessageDeferred MessageState = "deferred" // it was certainly not taken, and may be tried again
	MessageUnclear  MessageState = "unclear"  // nobody knows whether it was taken
	MessageVoid     MessageState = "void"     // it is not to be sent any more, and never left
)

// openFrozen opens the frozen bytes of a message. It fails if they are not those that were frozen. which names the
// message in errors.
func (l *Ledger) openFrozen(box []byte, digest string, place []byte, which string) ([]byte, error) {
	body, err := l.seal.open(box, place)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", which, err)
	}
	if digestOf(body) != digest {
		return nil, fmt.Errorf("%s is not what was frozen; it is not sent", which)
	}
	return body, nil
}

func digestOf(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}
