package billing

import (
	"cmp"
	"encoding/json"
	"hash/maphash"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"payersync/connector"
)

// Survey examines deliveries not understood: their shapes, and the likely places of their facts. It keeps no values: it
// counts known ids, and the kind of all other values.
type Survey struct {
	Paths    EventPaths             // configured ones; their findings are not proposed
	Customer func(id string) bool   // whether an id is of a known customer
	Mandate  func(id string) bool   // whether an id is of a known mandate
	shapes   map[string]*shapeCount // by the text of their members
	facts    map[string]*pathFacts
	seed     maphash.Seed
	out      Surveyed
}

// Surveyed is the result of a survey.
type Surveyed struct {
	Deliveries int        `json:"deliveries"`  // examined deliveries
	Erased     int        `json:"erased"`      // deliveries without their bodies
	Unreadable int        `json:"unreadable"`  // deliveries other than a JSON object
	Shapes     []Shape    `json:"shapes"`      // the most frequent first
	MoreShapes int        `json:"more_shapes"` // deliveries of other shapes
	Proposals  []Proposal `json:"proposals"`   // for event_paths
	Understood int        `json:"understood"`  // deliveries readable with the proposals
}

// Shape is the structure of deliveries with the same members and different values.
type Shape struct {
	Members []EventMember `json:"members"`
	Count   int           `json:"count"`
	First   time.Time     `json:"first_seen"`
	Last    time.Time     `json:"last_seen"`
}

// Proposal is the likely place of a fact in deliveries.
type Proposal struct {
	Key        string `json:"key"`        // of event_paths
	Path       string `json:"path"`       // to add to its list
	Deliveries int    `json:"deliveries"` // deliveries with it
	Evidence   int    `json:"evidence"`   // of them, those with a fitting value
	Why        string `json:"why"`
}

// Bounds of a survey: members may be named after values.
const (
	maxShapes      = 200
	maxShapePaths  = 2000
	maxEventNames  = 30 // distinct values of a supposed type
	nearDelivery   = 7 * 24 * time.Hour
	minRepeats     = 2
	epochDigits    = 10
	epochMillis    = 13
	maxNameOfEvent = 80
)

type shapeCount struct {
	Shape
	paths []string // configurable paths to text or a number
	typed bool     // the type of one was read, if only from a header
}

// pathFacts are the facts about the values at one path.
type pathFacts struct {
	held, customers, mandates, names, ids, times int
	values                                       map[uint64]struct{}
	apart                                        time.Duration // between the times and the arrivals, in all
	word                                         bool          // a value has a typical word of event names
}

// Add looks at one delivery: when it came, whether its type was read then, and its body. One
// without a body is counted as erased.
func (s *Survey) Add(at time.Time, typed bool, body []byte) {
	if s.shapes == nil {
		s.shapes, s.facts, s.seed = map[string]*shapeCount{}, map[string]*pathFacts{}, maphash.MakeSeed()
	}
	s.out.Deliveries++
	if len(body) == 0 {
		s.out.Erased++
		return
	}
	o, err := parseEventBody(body)
	if err != nil {
		s.out.Unreadable++
		return
	}
	var leaves []leaf
	leaves = shapeOf(leaves, "", true, o)
	leaves = leaves[:min(len(leaves), maxEventMembers)]
	slices.SortFunc(leaves, func(a, b leaf) int { return cmp.Compare(a.path, b.path) })
	shape := s.count(at, leaves)
	if shape != nil && typed {
		shape.typed = true
	}
	for _, l := range leaves {
		if l.value != "" && l.named {
			s.note(at, l)
			shape.add(l.path)
		}
	}
}

// leaf is a member without nested members.
type leaf struct {
	path, kind, value string
	named             bool // event_paths can name it
}

func shapeOf(out []leaf, at string, named bool, o object) []leaf {
	for _, m := range o {
		named := named && m.key != "" && !strings.Contains(m.key, ".") && (at != "" || !strings.HasPrefix(m.key, headerPath))
		if inner, err := parseObject(m.value); err == nil && len(inner) > 0 {
			out = shapeOf(out, at+m.key+".", named, inner)
			continue
		}
		out = append(out, leaf{at + m.key, broadKind(m.value), scalar(m.value), named})
	}
	return out
}

// broadKind returns the kind of a value, independent of its content.
func broadKind(value json.RawMessage) string {
	switch {
	case scalar(value) != "" && value[0] == '"':
		return "text"
	case scalar(value) != "":
		return "number"
	case value[0] == '"':
		return "empty text"
	case value[0] == '[':
		return "list"
	case value[0] == '{':
		return "empty object"
	case value[0] == 'n':
		return "null"
	}
	return "true or false"
}

// count returns the shape of a delivery; nil if there are too many.
func (s *Survey) count(at time.Time, leaves []leaf) *shapeCount {
	var name strings.Builder
	for _, l := range leaves {
		name.WriteString(strconv.Quote(l.path) + l.kind)
	}
	shape := s.shapes[name.String()]
	if shape == nil {
		if len(s.shapes) == maxShapes {
			s.out.MoreShapes++
			return nil
		}
		shape = &shapeCount{Shape: Shape{First: at, Last: at, Members: []EventMember{}}}
		shape.Members = append(shape.Members,
			connector.Map(leaves, func(l leaf) EventMember { return EventMember{l.path, l.kind} })...)
		s.shapes[name.String()] = shape
	}
	shape.Count++
	if at.Before(shape.First) {
		shape.First = at
	}
	if at.After(shape.Last) {
		shape.Last = at
	}
	return shape
}

func (c *shapeCount) add(path string) {
	if c != nil && c.Count == 1 {
		c.paths = append(c.paths, path)
	}
}

var (
	eventName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.:/ -]*$`)
	likeUUID  = regexp.MustCompile(`^[0-9A-Fa-f]{8}-[0-9A-Fa-f-]{20,}$`)
	likeID    = regexp.MustCompile(`^[A-Za-z0-9_.:/=+-]{4,}$`)
	digits    = regexp.MustCompile(`[0-9]{4}`)
)

func (s *Survey) note(at time.Time, l leaf) {
	f := s.facts[l.path]
	if f == nil {
		if len(s.facts) == maxShapePaths {
			return
		}
		f = &pathFacts{values: map[uint64]struct{}{}}
		s.facts[l.path] = f
	}
	f.held++
	f.values[maphash.String(s.seed, l.value)] = struct{}{}
	if s.Customer(l.value) {
		f.customers++
	}
	if s.Mandate(l.value) {
		f.mandates++
	}
	if l.kind == "text" && len(l.value) <= maxNameOfEvent && eventName.MatchString(l.value) &&
		!likeUUID.MatchString(l.value) && !digits.MatchString(l.value) {
		f.names++
		f.word = f.word || EventAbout(l.value) != AboutUnknown
	}
	if likeID.MatchString(l.value) {
		f.ids++
	}
	if t, ok := timeOf(l.value); ok && t.Sub(at).Abs() <= nearDelivery {
		f.times++
		f.apart += t.Sub(at).Abs()
	}
}

// timeOf reads a time as services write them: as RFC 3339 says, or seconds or milliseconds
// since 1970.
func timeOf(text string) (time.Time, bool) {
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, true
	}
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case err == nil && len(text) == epochDigits:
		return time.Unix(n, 0), true
	case err == nil && len(text) == epochMillis:
		return time.UnixMilli(n), true
	}
	return time.Time{}, false
}

// Found returns the survey's result.
func (s *Survey) Found() Surveyed {
	out := s.out
	out.Shapes, out.Proposals = []Shape{}, []Proposal{}
	shapes := make([]*shapeCount, 0, len(s.shapes))
	for _, shape := range s.shapes {
		shapes = append(shapes, shape)
	}
	slices.SortFunc(shapes, func(a, b *shapeCount) int {
		return cmp.Or(b.Count-a.Count, a.First.Compare(b.First),
			slices.CompareFunc(a.Members, b.Members, func(a, b EventMember) int {
				return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Kind, b.Kind))
			}))
	})
	out.Shapes = append(out.Shapes, connector.Map(shapes, func(shape *shapeCount) Shape { return shape.Shape })...)
	named := map[string]bool{}
	for _, way := range []struct {
		key   string
		paths []string
		score func(path string, f *pathFacts) (score, evidence int, why string)
	}{
		{"customer_id", s.Paths.CustomerID, customerThere}, {"mandate_id", s.Paths.MandateID, mandateThere},
		{"type", s.Paths.Type, typeThere}, {"event_id", s.Paths.EventID, eventThere},
		{"occurred_at", s.Paths.OccurredAt, timeThere},
	} {
		proposed := s.propose(shapes, way.key, way.paths, way.score)
		out.Proposals = append(out.Proposals, proposed...)
		if way.key == "customer_id" || way.key == "mandate_id" {
			for _, p := range proposed {
				named[p.Path] = true
			}
		}
	}
	for _, shape := range shapes {
		if slices.ContainsFunc(shape.paths, func(path string) bool { return named[path] }) {
			out.Understood += shape.Count
		}
	}
	return out
}

// propose returns the best path of every shape without a value at the configured paths.
func (s *Survey) propose(shapes []*shapeCount, key string, configured []string,
	score func(string, *pathFacts) (int, int, string)) []Proposal {
	var out []Proposal
	for _, shape := range shapes {
		if key == "type" && shape.typed ||
			slices.ContainsFunc(shape.paths, func(path string) bool { return slices.Contains(configured, path) }) {
			continue
		}
		best, most := Proposal{}, 0
		for _, path := range shape.paths {
			f := s.facts[path]
			if f == nil {
				continue
			}
			if n, evidence, why := score(path, f); n > most {
				best, most = Proposal{key, path, f.held, evidence, why}, n
			}
		}
		if most > 0 && !slices.Contains(out, best) {
			out = append(out, best)
		}
	}
	return out
}

// A path with an id of the other kind proves nothing.
func customerThere(_ string, f *pathFacts) (score, evidence int, why string) {
	if f.mandates > 0 || 2*f.customers < f.held {
		return 0, 0, ""
	}
	return f.customers, f.customers, "ids of customers that the ledger knows"
}

func mandateThere(_ string, f *pathFacts) (score, evidence int, why string) {
	if f.customers > 0 || 2*f.mandates < f.held {
		return 0, 0, ""
	}
	return f.mandates, f.mandates, "ids of mandates that the ledger knows"
}

// typeThere looks for a few repeated values similar to event names.
func typeThere(path string, f *pathFacts) (score, evidence int, why string) {
	called := lastName(path, "type", "event", "topic", "kind", "action", "name")
	if f.names < f.held || f.held < minRepeats || len(f.values) == f.held || len(f.values) > maxEventNames || !called &&
		!f.word {
		return 0, 0, ""
	}
	score = 1
	if f.word {
		score += 2
	}
	if called {
		score++
	}
	return score, f.names, "few values that repeat, as names of events do"
}

// eventThere looks for an id different in each delivery and unknown as any customer's or mandate's.
func eventThere(path string, f *pathFacts) (score, evidence int, why string) {
	lower := strings.ToLower(path)
	of := slices.ContainsFunc([]string{"customer", "mandate", "biller", "payer", "payment", "invoice"},
		func(word string) bool { return strings.Contains(lower, word) })
	if f.held < minRepeats || len(f.values) < f.held || f.ids < f.held || f.times > 0 || f.customers+f.mandates > 0 ||
		of || !lastName(path, "id", "key", "uuid", "reference") {
		return 0, 0, ""
	}
	if strings.Contains(lower, "event") || strings.Contains(lower, "delivery") || strings.Contains(lower, "message") {
		return 2, f.held, "another in each delivery, and never an id that the ledger knows"
	}
	return 1, f.held, "another in each delivery, and never an id that the ledger knows"
}

// timeThere prefers the time nearest to the arrivals.
func timeThere(_ string, f *pathFacts) (score, evidence int, why string) {
	if f.times < f.held {
		return 0, 0, ""
	}
	return max(1, int((nearDelivery-f.apart/time.Duration(f.held))/time.Millisecond)), f.times, "times near the arrival"
}

// lastName reports whether the last name of a path holds one of the words.
func lastName(path string, words ...string) bool {
	name := strings.ToLower(path[strings.LastIndex(path, ".")+1:])
	return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(name, word) })
}

// With appends proposals to the configured paths. The configured ones still take precedence.
func (p EventPaths) With(proposals []Proposal) (paths EventPaths, changed map[string][]string) {
	changed = map[string][]string{}
	for key, list := range map[string]*[]string{
		"type": &p.Type, "customer_id": &p.CustomerID, "mandate_id": &p.MandateID, "event_id": &p.EventID,
		"occurred_at": &p.OccurredAt,
	} {
		*list = slices.Clone(*list)
		for _, proposal := range proposals {
			if proposal.Key == key && !slices.Contains(*list, proposal.Path) {
				*list = append(*list, proposal.Path)
				changed[key] = *list
			}
		}
	}
	return p, changed
}
