package sandbox

import (
	"bytes"
	"slices"

	"payersync/connector"
)

// Switches returns the switches as they are now.
func (s *Sandbox) Switches() Switches {
	defer s.lock()()
	return s.opt.Switches
}

// SetSwitches changes the switches for all later requests. Tokens, mandates, links and the memory of creates
// stay. If the spelling of people, addresses or externalData changes, customers are respelt; values without a
// place in the new spelling are lost. A webhook secret invalid for the new signature is replaced by a random
// one. The error names the unknown parts of sw; then nothing changes.
func (s *Sandbox) SetSwitches(sw Switches) error {
	sw.Signature.Secret = connector.Secret{} // of the start alone; SetWebhookSecret changes it
	if err := sw.Validate(); err != nil {
		return err
	}
	sw.fill()
	defer s.lock()()
	s.change(sw)
	return nil
}

// change takes sw, which is right and filled.
func (s *Sandbox) change(sw Switches) {
	before := s.opt.Switches
	s.opt.Switches = sw
	if _, err := sw.Signature.key(s.hooks.secret); err != nil {
		s.hooks.secret = sw.Signature.draw(s.tokenIDs)
	}
	if before.PersonFields == sw.PersonFields && before.AddressFields == sw.AddressFields &&
		before.ExternalData == sw.ExternalData {
		return
	}
	for _, c := range s.order {
		s.respell(c)
	}
	for _, late := range s.readers.undo {
		s.respell(late.was)
	}
}

// respell brings a customer that was written before into the spelling of now.
func (s *Sandbox) respell(c *customer) {
	if c == nil {
		return
	}
	if fields, err := parseObject(slices.Concat([]byte("{"), c.fields, []byte("}"))); err == nil {
		c.fields = bytes.Clone(s.opt.Switches.respell(fields).inner())
	}
}
