// Package match proposes matches between records and customers, for a person to accept or reject.
//
// If the billing service already has customers, records that look like one of them are on hold. Find compares
// both lists and returns each record's possible customers, with a score from 0 to 100 and the reasons in
// words. WriteCSV and ReadCSV take the list to a spreadsheet and back.
//
// The score is made by rules, and README.md#the-rules is printed from them. Each has points, for or against;
// a doubtful one also limits the score, however much else agrees. So the score says how certain a pair is:
//
//	90 and above   the name is equal, the place is, and the e-mail address or the company number
//	80 to 89       the name and the e-mail address are equal, something is missing or the phone is another
//	60 to 79       one thing is off: a typo, a move, another e-mail address, a legal form
//	below 60       something speaks against it, or somebody else fits as well
//
// Only the first kind is meant to be accepted without a look at each pair: see
// BulkLevel.
//
// # Limits
//
// The package knows no SQL, no HTTP and no clock. The caller chooses the customers and records, marks linked
// customers as taken, passes earlier rejections, and acts on accepted pairs. A person decides by the values
// shown in the file. So the caller compares Row.Ours and Row.Theirs with the present values when it reads a
// file back.
package match
