package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"payersync/cmd/payersync/internal/show"
	"payersync/connector"
	"payersync/connector/admin"
	"payersync/connector/sandbox"
)

// proposed returns the proposal of a way out of a finding, as the commands and the pages show it.
func (s *stage) proposed(id string, reason connector.Reason, at int) admin.Proposal {
	s.t.Helper()
	a := s.app(io.Discard, io.Discard)
	opened, err := a.open(s.t.Context())
	s.must(err)
	defer opened.Close()
	matters, err := a.mattersOf(s.t.Context(), opened, id, "")
	s.must(err)
	for _, told := range matters[0].Told {
		if told.Reason != reason {
			continue
		}
		d := told.Ways[at].Decision
		if d.Parts = []string{"name"}; admin.Acts[d.Act].Asks(admin.InputCustomer) && d.Customer == "" {
			d.Customer = s.another
		}
		p, err := a.attentionOf(opened).Propose(s.t.Context(), d)
		if errors.Is(err, admin.ErrNoWebhook) { // the command itself subscribes
			return admin.Proposal{Decision: d}
		}
		s.must(err)
		return p
	}
	s.t.Fatalf("%s is not told %s", id, reason)
	return admin.Proposal{}
}

// lines returns the lines of a preview.
func lines(v admin.Preview) []string {
	return slices.Concat([]string{v.Becomes}, v.Warnings, v.Notes, []string{v.Sends, v.Undo})
}

// shown fails unless a command of todo shows the effect of an act, and does nothing without a yes.
func (s *stage) shown(t *testing.T, args []string, want admin.Preview) {
	t.Helper()
	writes, log := s.box.Writes(), s.do([]string{"audit", "--output", "json"}, exitDone).out
	r := s.called(true, slices.DeleteFunc(slices.Clone(args), func(arg string) bool { return arg == "--yes" })...)
	if r.code == exitDone || s.box.Writes() != writes || s.do([]string{"audit", "--output", "json"}, exitDone).out != log {
		t.Errorf("without a yes it ended with %d, sent %d requests, and the log says\n%s", r.code, s.box.Writes()-writes,
			s.do([]string{"audit", "--output", "json"}, exitDone).out)
	}
	for _, line := range lines(want) {
		if !strings.Contains(r.errOut, show.Visible(line)) {
			t.Errorf("todo does not show %q:\n%s", line, r.errOut)
		}
	}
}

// sent fails unless requests are as a preview says.
func (s *stage) sent(t *testing.T, v admin.Preview, now, all int) {
	t.Helper()
	switch {
	case v.When != connector.SendsNow && now > 0, v.When == connector.SendsNothing && all > now &&
		!strings.Contains(v.Becomes, "sends nothing for this payer"):
		t.Errorf("%d requests were sent at once and %d in all, and the preview said %q", now, all, v.Sends)
	case v.When == connector.SendsNow && now == 0 && v.Act != connector.ActSubscribe:
		t.Errorf("nothing was sent, and the preview said %q", v.Sends)
	}
	if v.When != connector.SendsNextSync || v.Compares || len(v.Changes) == 0 {
		return
	}
	if !slices.ContainsFunc(s.box.Customers(), func(c sandbox.Customer) bool {
		var fields any
		s.must(json.Unmarshal(c.Raw, &fields))
		return !slices.ContainsFunc(v.Changes, func(f connector.FieldChange) bool { return valueAt(fields, f.Path) != f.To })
	}) {
		t.Errorf("no customer has the values that the preview showed: %+v", v.Changes)
	}
}

// valueAt returns the text at a path of a customer; "" for none.
func valueAt(in any, path string) string {
	for _, step := range strings.FieldsFunc(path, func(r rune) bool { return strings.ContainsRune(".[]", r) }) {
		switch of := in.(type) {
		case map[string]any:
			in = of[step]
		case []any:
			n, err := strconv.Atoi(step)
			if in = nil; err == nil && n < len(of) {
				in = of[n]
			}
		default:
			in = nil
		}
	}
	if in == nil {
		return ""
	}
	return fmt.Sprint(in)
}

// undoes takes an act back, and looks that everything is as before.
func undoes(t *testing.T, row *acted, at int, way connector.Way) {
	facts := admin.Acts[way.Act]
	reason := row.reason
	if facts.Undo == "" {
		row.undone = "no: " + facts.Final
		return
	}
	if sampled := []connector.Reason{connector.ReasonEmailMalformed, connector.ReasonKeyShared,
		connector.ReasonForeignChange}; way.Act == connector.ActGiveUp && !slices.Contains(sampled, reason) {
		row.undone = fmt.Sprintf("as for %s", sampled[0])
		return
	}
	s := newStage(t)
	id := situations[reason](s)
	if way.Act == connector.ActLink {
		s.another = s.added(`{"name":"Matter Ltd","people":[{"name":"Matter Ltd","email":"matter@example.org"}]}`)
	}
	p := s.proposed(id, reason, at)
	before, customers := s.told(id), s.untouched()
	s.do(s.line(t, commandLine(wordsOf(admin.WayOut{Decision: p.Decision, Why: way.Why})), "decided in haste"), exitDone)
	back := admin.WayOut{Why: true,
		Decision: admin.Decision{Act: facts.Undo, Record: p.Record, Other: p.Other, Customer: p.Customer}}
	args := s.line(t, commandLine(wordsOf(back)), "decided again")
	s.do(args, exitDone)
	if !s.audited("decided again") {
		t.Error("the audit log does not say that it was taken back")
	}
	s.sync()
	if after := s.told(id); !slices.Equal(before, after) {
		t.Errorf("%s is told %v, and was told %v", id, after, before)
	}
	if now := s.untouched(); now != customers {
		t.Errorf("the other record was touched:\n%s\nwas\n%s", now, customers)
	}
	row.undone = "`payersync " + actCommands[facts.Undo] + "`"
}

func settles(t *testing.T, row *acted, at int, way connector.Way) {
	s, reason := newStage(t), row.reason
	id := situations[reason](s)
	if told := s.told(id); !slices.Contains(told, string(reason)) {
		t.Fatalf("%s is told %v, want %s", id, told, reason)
	}
	matter := decode[shownMatter](t, s.do([]string{"attention", "show", id, "--output", "json"}, exitDone))
	var out *shownWay
	for _, told := range matter.Told {
		if told.Reason == reason {
			out = &told.Ways[at]
		}
	}
	if out == nil || out.Does != way.Does || out.Sends != way.Sends {
		t.Fatalf("attention show does not name the way %q: %+v", way.Act, matter.Told)
	}
	if before := beforehand[way.Act]; before != nil {
		before(s)
	}
	other := s.untouched()
	why, again := fmt.Sprintf("settled by way %d of %s", at, reason), fmt.Sprintf("once more by way %d of %s", at, reason)
	if strings.Contains(out.Command, "ANOTHER") {
		s.another = s.added(`{"name":"Matter Ltd","people":[{"name":"Matter Ltd","email":"matter@example.org"}]}`)
	}
	args := s.line(t, out.Command, why)
	t.Logf("payersync %s", strings.Join(args, " "))
	preview := s.proposed(id, reason, at).Preview()
	// the next run then decides on the other record
	if preview.When != way.Sends && !(reason == connector.ReasonKeyShared && way.Act == connector.ActGiveUp) {
		t.Errorf("the preview says %q, and the way %q", preview.Sends, way.Sends)
	}
	s.shown(t, args, preview)
	writes := s.box.Writes()
	s.do(args, exitDone)
	now := s.box.Writes() - writes
	if !s.audited(why) && slices.Contains(args, why) {
		t.Errorf("the audit log does not say %q", why)
	}
	if way.Sends != connector.SendsNow {
		s.do(s.line(t, out.Command, again), exitDone)
		if s.audited(again) {
			t.Error("the same word was noted twice")
		}
	}
	s.settle(t, reason, id)
	s.sent(t, preview, now, s.box.Writes()-writes)
	if n := s.box.Writes() - writes; n > 0 && way.Sends == connector.SendsNothing {
		t.Errorf("%d requests were sent after a word that sends nothing", n)
	}
	if now := s.untouched(); now != other {
		t.Errorf("the other record was touched:\n%s\nwas\n%s", now, other)
	}
	row.terminal, row.sent = "payersync "+actCommands[way.Act], strings.ReplaceAll(string(preview.When), "_", " ")
}

// line is a command that attention show printed, with what its person has to say.
func (s *stage) line(t *testing.T, command, why string) []string {
	t.Helper()
	words := shellWords(command)
	for i, w := range words {
		switch w {
		case "why":
			words[i] = why
		case "PART":
			words[i] = "name"
		case "ANOTHER":
			words[i] = s.another
		}
	}
	a := &app{program: program{Console: &show.Console{}, getenv: func(string) (string, bool) { return "", false }}}
	c, rest, err := a.root().Find(words[1:])
	if err != nil {
		t.Fatalf("%s: %v", command, err)
	}
	for flag, value := range map[string]string{"yes": "", "note": why, "reason": why} {
		f := c.Flags().Lookup(flag)
		switch {
		case f == nil, slices.Contains(rest, "--"+flag), flag == "reason" && c.Flags().Lookup("note") != nil:
		case value == "":
			words = append(words, "--"+flag)
		default:
			words = append(words, "--"+flag, value)
		}
	}
	return words[1:]
}

// settle syncs until everything has come to rest, and fails when the reason is still told.
func (s *stage) settle(t *testing.T, reason connector.Reason, id string) {
	t.Helper()
	s.sync()
	if reason == connector.ReasonOutcomeUnknown || reason == connector.ReasonKeyUnderWay {
		for range 3 { // what has no answer may arrive, whatever a person says
			s.wait(time.Hour)
			s.sync()
		}
	}
	swept, synced := s.do([]string{"sweep"}, exitDone, exitAttention), s.sync()
	if told := s.told(id); slices.Contains(told, string(reason)) {
		t.Errorf("after it was settled %s is told %v", id, told)
	}
	if all := s.do([]string{"attention", "list", "--output", "json"}, exitDone).out; all == "" &&
		(swept.code != exitDone || synced.code != exitDone) {
		t.Errorf("nothing needs a person, and sweep ends with %d and sync with %d:\n%s%s%s", swept.code, synced.code,
			swept.out, swept.errOut, synced.out)
	}
}
