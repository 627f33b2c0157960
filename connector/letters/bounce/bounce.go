// Package bounce reads delivery reports: a mail server's message about an undelivered letter (RFC 3464). It
// returns the Message-ID of the letter, and whether the address is dead. It reads nothing else of a report,
// above all no address: anybody can write one.
//
// The caller decides whether the message is a letter of ours, and acts on it.
package bounce

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/mail"
	"net/textproto"
	"regexp"
	"strings"

	sent "payersync/connector/mail"
)

// Kind is a report's meaning for the address.
type Kind string

// The kinds.
const (
	Hard Kind = "hard" // the address does not exist, or takes no mail: nothing more is sent to it
	Soft Kind = "soft" // it did not arrive, as when a mailbox is full or the mail was refused: the next one may
	None Kind = "none" // it arrived, or was handed on
)

// Report is the content of a delivery report.
type Report struct {
	MessageID string // of the returned message, without brackets
	Kind      Kind
	Status    string // as in 5.1.1 (RFC 3463)
}

// Why a mail is no report that can be used.
var (
	ErrNoReport  = errors.New("it is no delivery report (RFC 3464)")
	ErrNoMessage = errors.New("the report does not say which message came back")
	ErrTooLarge  = errors.New("it is larger than any delivery report")
)

const (
	maxReport = 4 << 20  // bytes of a report, with the returned message
	maxFields = 64 << 10 // bytes read of a part
	maxParts  = 20
	maxDepth  = 3 // a report within a forwarded mail
	maxID     = 998
)

// Parse reads a delivery report as it is stored in a file: one mail, with or without the line
// by which a mailbox begins it.
func Parse(r io.Reader) (Report, error) {
	raw, err := io.ReadAll(io.LimitReader(r, maxReport+1))
	if err != nil {
		return Report{}, fmt.Errorf("read the report: %w", err)
	}
	if len(raw) > maxReport {
		return Report{}, ErrTooLarge
	}
	if bytes.HasPrefix(raw, []byte("From ")) {
		_, raw, _ = bytes.Cut(raw, []byte("\n"))
	}
	m, err := mail.ReadMessage(bytes.NewReader(raw))
	if err != nil {
		return Report{}, ErrNoReport
	}
	var f finding
	f.look(textproto.MIMEHeader(m.Header), m.Body, 0)
	switch {
	case f.status == "":
		return Report{}, ErrNoReport
	case f.messageID == "":
		return Report{}, ErrNoMessage
	}
	return Report{MessageID: f.messageID, Kind: kindOf(f.action, f.status), Status: f.status}, nil
}

// finding collects the facts in the parts of a mail.
type finding struct {
	parts             int
	action, status    string
	messageID         string
	reported, carried bool // the part with the outcome, and the message itself
}

// look reads one part, and those in it.
func (f *finding) look(h textproto.MIMEHeader, body io.Reader, depth int) {
	if f.parts++; f.parts > maxParts || depth > maxDepth {
		return
	}
	kind, params, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil {
		return
	}
	switch {
	case strings.HasPrefix(kind, "multipart/"):
		parts := multipart.NewReader(body, params["boundary"])
		for {
			part, err := parts.NextRawPart()
			if err != nil {
				return
			}
			f.look(part.Header, part, depth+1)
			if f.parts > maxParts {
				return
			}
		}
	case (kind == "message/delivery-status" || kind == "message/global-delivery-status") && !f.reported:
		f.reported = true
		f.readStatus(decoded(h, body))
	case (kind == "message/rfc822" || kind == "text/rfc822-headers" || kind == "message/global" ||
		kind == "message/global-headers") && !f.carried:
		f.carried = true
		f.readMessageID(decoded(h, body))
	}
}

// decoded returns the first bytes of a part's body.
func decoded(h textproto.MIMEHeader, body io.Reader) *textproto.Reader {
	switch strings.ToLower(strings.TrimSpace(h.Get("Content-Transfer-Encoding"))) {
	case "base64":
		body = base64.NewDecoder(base64.StdEncoding, body)
	case "quoted-printable":
		body = quotedprintable.NewReader(body)
	}
	return textproto.NewReader(bufio.NewReader(io.LimitReader(body, maxFields)))
}

// statusForm is a status as servers write it, a comment perhaps behind it.
var statusForm = regexp.MustCompile(`^\s*([245]\.\d{1,3}\.\d{1,3})(\s|\(|$)`)

// readStatus reads the outcome of the message: groups of fields, the first of the message and then one for
// each recipient. The worst of them counts; a letter of ours has one.
func (f *finding) readStatus(r *textproto.Reader) {
	for {
		group, err := r.ReadMIMEHeader()
		if m := statusForm.FindStringSubmatch(group.Get("Status")); m != nil {
			action := strings.ToLower(strings.TrimSpace(group.Get("Action")))
			if f.status == "" || weight(kindOf(action, m[1])) > weight(kindOf(f.action, f.status)) {
				f.action, f.status = action, m[1]
			}
		}
		if err != nil {
			return
		}
	}
}

// readMessageID reads the Message-ID of the message that came back.
func (f *finding) readMessageID(r *textproto.Reader) {
	h, _ := r.ReadMIMEHeader() // headers read before an error count
	id := strings.TrimSpace(h.Get("Message-Id"))
	id = strings.TrimSuffix(strings.TrimPrefix(id, "<"), ">")
	if id != "" && len(id) <= maxID && !strings.ContainsAny(id, "<> \t\r\n\x00") {
		f.messageID = id
	}
}

// kindOf returns the meaning of an action with a status.
func kindOf(action, status string) Kind {
	switch {
	case action != "failed" && action != "delayed":
		return None
	case action == "failed" && sent.IsDeadAddress(status):
		return Hard
	case strings.HasPrefix(status, "2."):
		return None
	}
	return Soft
}

func weight(k Kind) int { return map[Kind]int{Soft: 1, Hard: 2}[k] }
