package connector

// Label identifies a record for people, in its accounting system's words: for lists and for searching, and
// never for deciding. Every text may be blank.
type Label struct {
	Number   string `json:"number,omitempty"` // the value of its key
	Name     string `json:"name,omitempty"`
	Email    string `json:"email,omitempty"`    // the address for letters
	Contact  string `json:"contact,omitempty"`  // the addressee; blank if it could be anybody
	Language string `json:"language,omitempty"` // BCP 47, for letters
}
