package letters

import "slices"

// sentences say to people why a letter is not sent today.
var sentences = map[Why]string{
	WhyNotPayer:    "the record is excluded now, or its customer or signing link is in doubt",
	WhyLetBe:       "a person said that nothing is to be done about its mandate",
	WhyOptedOut:    "the recipient wants no letters",
	WhyBounced:     "the e-mail address does not exist; correct it in the accounting system",
	WhyPerson:      "a person stopped it",
	WhyPaused:      "letters are paused",
	WhyBrake:       "a brake holds letters until a person resumes them",
	WhyOldLink:     "its signing link is old and has to be fetched again",
	WhyNoAddress:   "the record has no e-mail address, or no valid one",
	WhyOver:        "no letter is left; somebody should call",
	WhyRefused:     "the mail server did not take the first letter to this address",
	WhyGivenUp:     "the mail server put the letter off too often",
	WhyDay:         "the day of its next step has not come",
	WhyDistance:    "the payer had a letter a few days ago",
	WhyAddress:     "its address had a letter a few days ago, or gets another one today",
	WhyPutOff:      "the mail server put it off today",
	WhyReplaced:    "another mandate was written about before; the letters begin anew by hand",
	WhyShared:      "more than three payers have the address",
	WhyAlsoWritten: "another payer with this address has an open link or a mandate",
	WhyOwnDomain:   "the address is one of ours",
	WhyExample:     "nobody can have the address",
	WhyApproval:    "the first letters of a setup are approved by a person",
	WhyChanged:     "too many addresses changed",
	WhyMany:        "there would be many more letters than the last time",
}

// Sentence returns the reason a letter is not sent today, without a capital and a full stop; "" if it is.
func (w Why) Sentence() string { return sentences[w] }

// Alone reports whether a letter waiting for this reason is approved individually.
func (w Why) Alone() bool {
	return slices.ContainsFunc(waitsAlone, func(h Why) bool { return w == h })
}
