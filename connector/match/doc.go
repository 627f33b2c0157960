// Package match finds which records of an accounting system and which customers of
// the billing service may be the same, for a person to accept or reject.
//
// A billing service that already has the customers holds every record that looks
// like one of them. Find compares both lists and says for each record whom it may
// be, with a score from 0 to 100 and the reasons in words. WriteCSV and ReadCSV take
// the list to a spreadsheet and back.
//
// The score is made by rules, and README.md#the-rules is printed from them. Each has
// points, for or against; a rule that leaves a doubt also limits the score, however
// much else agrees. So the score says what kind of pair it is:
//
//	90 and above   the name is equal, the place is, and the e-mail address or the company number
//	80 to 89       the name and the e-mail address are equal, something is missing or the phone is another
//	60 to 79       one thing is off: a typo, a move, another e-mail address, a legal form
//	below 60       something speaks against it, or somebody else fits as well
//
// Only the first kind is meant to be accepted without a look at each pair: see
// BulkLevel.
//
// # What it leaves to others
//
// The package knows no SQL, no HTTP and no clock. Whose customers and records are
// given, that those with a key or a link of ours are marked as taken, what was
// rejected before, and what an accepted pair leads to, is for the caller to say.
// A person's decision is about what the pair showed: a caller that takes a file back
// compares Row.Ours and Row.Theirs with what is there now.
package match
