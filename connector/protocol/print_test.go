package protocol

import (
	"fmt"
	"strings"
)

// Table returns both tables as Markdown, from the lines that Decide uses. README.md holds it.
func Table() string {
	var b strings.Builder
	for _, t := range []struct {
		title string
		lines []line
	}{{"The customer", customers}, {"The mandate", mandates}} {
		fmt.Fprintf(&b, "### %s\n\n| line | when | step | reason |\n|---|---|---|---|\n", t.title)
		for _, l := range t.lines {
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", l.name, l.when(), l.step(), l.tells())
		}
		b.WriteString("\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// step puts the step of a line into words, with what has to come before it.
func (l line) step() string {
	var first []string
	for _, n := range []struct {
		set  needs
		text string
	}{{approval, "an approved plan"}, {list, "a list of this run"}, {look, "a read just before"}} {
		if l.needs&n.set != 0 {
			first = append(first, n.text)
		}
	}
	if first == nil {
		return fmt.Sprintf("**`%s`**", l.do)
	}
	return fmt.Sprintf("**`%s`**, after %s", l.do, strings.Join(first, " and "))
}

func (l line) tells() string {
	switch {
	case l.reason != "":
		return fmt.Sprintf("`%s`", l.reason)
	case l.do == Tell && l.all&unfit != 0:
		return "reason of the unfit record"
	case l.do == Tell:
		return "reason of the refusal"
	}
	return ""
}

// words puts each statement into words: as it holds, and as it does not.
var words = []struct {
	set      conditions
	yes, not string
}{
	{linked, "linked", "not linked"},
	{unread, "no read of its customer since the last answer or restore", "its customer was read"},
	{left, "the record is excluded, gone or no longer shown", "the record is present and not excluded"},
	{gone, "the record is gone", "the record is there"},
	{excluded, "the record is excluded", "the record is not excluded"},
	{anew, "a person gave the record up, and it has changed since", "no person gave it up, or it is unchanged since"},
	{notShown, "the record is no longer shown", "the record is shown"},
	{unfit, "the record is unfit", "the record is fit"},
	{rekeyed, "the record now has another key", "the record has the same key"},
	{wanted, "the record is included with this key", "the record is no longer included with this key"},
	{rival, "another record claims the key", "no other record claims the key"},
	{creating, "an open create of this payer", "no open create of this payer"},
	{createOver, "its time is over", "it may still arrive"},
	{createOld, "it was sent before a restore still in doubt", "it was sent after any restore"},
	{createRests, "it may not be sent again yet", "it may be sent again"},
	{nobody, "no customer holds the key", "a customer holds the key"},
	{free, "one unlinked holder", "no single unlinked holder"},
	{elsewhere, "the holder, or a customer once linked under the key, belongs to another payer",
		"the key belongs to no other payer"},
	{several, "several holders", "not several holders"},
	{underWay, "an open create of another payer with the key", "no open create of another payer"},
	{underWayOver, "its time is over", "it may still arrive"},
	{doubt, "requests from before a restore are in doubt", "nothing from before a restore is in doubt"},
	{doubtOver, "their time is over", "they may still arrive"},
	{believed, "the index is believed", "the index is not believed"},
	{readOtherwise, "a read just now shows the holder without the key", "the holder carries the key"},
	{disputed, "a read just now shows that the holder looks like another payer, and no person confirmed it",
		"there is no evidence against the holder, or a person confirmed it"},
	{alike, "customers without a key look like the record, and no person allowed a new customer",
		"no customer looks like it, or a person allowed a new customer"},
	{alikeLeft, "the record looks like a payer of ours whose record was removed, and no person said that they are two",
		"no payer with a removed record looks like it"},
	{alikeTwice, "another record of the connection looks like it, and no person said that they are two",
		"no other record of the connection looks like it"},
	{refused, "exactly these values were refused, and no person asked to try again", "these values were not refused"},
	{worn, "too many tries without a result, and no person asked to try again", "not too many tries"},
	{young, "the customer is too new for a read to show it", "a read showed the customer"},
	{missing, "the customer does not exist", "the customer exists"},
	{otherKey, "the customer carries another key", "it carries no other key"},
	{noKey, "the customer carries no key", "it carries a key"},
	{holds, "the customer holds the wanted values", "the customer does not hold the wanted values"},
	{holdsOlder, "it holds the values of another update of ours", "it holds no values of another update"},
	{older, "an open update of ours with other values, or an answered one that reads may still lag behind, or a restore in doubt", "no other update can arrive"},
	{olderOver, "their time is over", "they may still arrive"},
	{confirmed, "the wanted values were confirmed before, and no person asked to send them again",
		"the wanted values were never confirmed, or a person asked to send them again"},
	{shownOtherwise, "a create or update with them was answered, a later read shows other values, or the old ones too often, and no person asked to send them again", "no answered values were overwritten"},
	{lives, "its mandate waits for a signature or is live", "it has no mandate, or a cancelled one"},
	{mayStay, "a person decided that this may stay", "no person decided that this may stay"},
	{unlinking, "a person said that the customer is not the record's",
		"no person said that the customer is not the record's"},
	{sentBefore, "a request of the payer without an answer, or a restore in doubt", "no request of the payer may arrive"},
	{sentOver, "the time of all requests is over", "one of them may still arrive"},
	{statusUnknown, "the status is not documented", "the status is documented"},
	{cancelled, "the newest mandate is cancelled", "it is not cancelled"},
	{signed, "it is signed", "it is not signed"},
	{unsigned, "a mandate waits for its signature", "no mandate was ever seen"},
	{hasLink, "its signing link is stored", "its signing link was never seen"},
	{wished, "the record wants a mandate", "the record wants no mandate"},
	{asked, "a person has asked since", "no person has asked since"},
	{letBe, "a person closed it in its present state", "no person closed it in its present state"},
	{inOrder, "the customer is linked, read, the only one with its key, and belongs to no other payer",
		"the customer is not in order"},
	{asking, "an open request for a signing link, or a restore in doubt", "no open request for a signing link"},
	{askOver, "their time is over", "they may still arrive"},
	{same, "asking again gives the same mandate", "asking again may make another mandate"},
	{askRefused, "a request was refused, and no person asked to try again", "no request was refused"},
	{askRests, "a recent request got no answer, and its pause is not over", "no pause is under way"},
}

// when puts the conditions of a line into words.
func (l line) when() string {
	var parts []string
	for _, w := range words {
		switch {
		case l.all&w.set != 0:
			parts = append(parts, w.yes)
		case l.none&w.set != 0:
			parts = append(parts, w.not)
		}
	}
	if parts == nil {
		return "anything else"
	}
	return strings.Join(parts, "; ")
}
