package billing

import (
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"payersync/connector"
)

// externalData comes in four shapes:
//
//	map      {"xeroContactId": "abc"}
//	list     [{"key": "xeroContactId", "value": "abc"}]
//	object   {"connectorType": "XERO", "id": "abc", "name": "…"}
//	objects  [{"connectorType": "XERO", "id": "abc", "name": "…"}]
//
// In the last two, connectorType is the key's name and id is the key's value; name belongs to the service.
const (
	connectorType = "connectorType"
	connectorID   = "id"
	pairKey       = "key"
	pairValue     = "value"
)

// connectorTypes are the names with several spellings at the service. They are read in the spelling used here.
var connectorTypes = []string{"XERO", "QUICKBOOKS"}

// IsConnectorType reports whether a key has the name of a connector type in the service's public documentation. The
// service may refuse other names.
func IsConnectorType(key string) bool {
	return slices.Contains(connectorTypes, connectorName(key))
}

// connectorName returns a connector type, or its scope's name, in the standard spelling.
func connectorName(text string) string {
	for _, name := range connectorTypes {
		for _, known := range []string{name, connector.ScopeName(name)} {
			if strings.EqualFold(text, known) {
				return known
			}
		}
	}
	return text
}

// pairsOf reads externalData of any shape. It ignores values other than text and numbers.
func pairsOf(raw json.RawMessage) map[string]string {
	out := make(map[string]string)
	add := func(name, value string) {
		if name != "" && value != "" {
			out[name] = value
		}
	}
	if o, err := parseObject(raw); err == nil && !isConnector(o) {
		for _, m := range o {
			add(m.key, scalar(m.value))
		}
		return out
	}
	for element := range pairElements(raw) {
		add(pairOf(element))
	}
	return out
}

// pairElements yields the elements of a list, or the single object as one.
func pairElements(raw json.RawMessage) iter.Seq[object] {
	if o, err := parseObject(raw); err == nil {
		return func(yield func(object) bool) { yield(o) }
	}
	return elements(raw)
}

func isConnector(o object) bool { return o.has(connectorType) }

func pairOf(o object) (name, value string) {
	if isConnector(o) {
		return connectorName(o.text(connectorType)), o.text(connectorID)
	}
	return o.text(pairKey), o.text(pairValue)
}

// writePairs renders externalData in the dialect's shape. In the object shape, several pairs become a list of objects;
// a service may refuse this.
func (d Dialect) writePairs(pairs map[string]string) (json.RawMessage, error) {
	var entries object
	var list []json.RawMessage
	for _, name := range slices.Sorted(maps.Keys(pairs)) {
		if known := connectorName(name); d.ExternalData == "object" && name != known {
			return nil, fmt.Errorf("external_data is object, where the key %s comes back as %s; name it %[2]s in the mapping",
				name, known)
		}
		entries.set(name, quote(pairs[name]))
		list = append(list, newElement(name, pairs[name], d.ExternalData == "object"))
	}
	switch {
	case d.ExternalData == "map":
		return entries.bytes(), nil
	case d.ExternalData == "object" && len(list) == 1:
		return list[0], nil
	}
	return joinArray(list), nil
}

func newElement(name, value string, connector bool) json.RawMessage {
	nameKey, valueKey := pairKey, pairValue
	if connector {
		nameKey, valueKey = connectorType, connectorID
	}
	var o object
	o.set(nameKey, quote(name))
	o.set(valueKey, quote(value))
	return o.bytes()
}

// mergePairs merges our pairs into externalData, in its present shape, and leaves all other pairs unchanged. gone are
// our pairs no longer wanted. A single foreign object becomes a list of both.
func (d Dialect) mergePairs(raw json.RawMessage, want map[string]string, gone []string) (json.RawMessage, error) {
	o, err := parseObject(raw)
	switch {
	case err == nil && isConnector(o):
		merged := mergeElements([]json.RawMessage{raw}, want, gone, true)
		if len(merged) == 1 {
			return merged[0], nil
		}
		return joinArray(merged), nil
	case err == nil && len(o) > 0:
		return mergeMap(o, want, gone), nil
	case err == nil:
		raw = nil
	}
	list, err := parseArray(raw)
	if err != nil {
		return nil, fmt.Errorf("externalData: %w", err)
	}
	if len(list) > 0 {
		return joinArray(mergeElements(list, want, gone, hasConnector(list))), nil
	}
	if len(want) == 0 {
		return nil, nil // nothing there and nothing wanted: leave it as it is
	}
	return d.writePairs(want)
}

func mergeMap(o object, want map[string]string, gone []string) json.RawMessage {
	for _, name := range gone {
		o.remove(name)
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if scalar(o.get(name)) != want[name] {
			o.set(name, quote(want[name]))
		}
	}
	return o.bytes()
}

func hasConnector(list []json.RawMessage) bool {
	return slices.ContainsFunc(list, func(raw json.RawMessage) bool {
		o, err := parseObject(raw)
		return err == nil && isConnector(o)
	})
}

// mergeElements merges lists of pairs and of connectors. An element of ours
// keeps its other members.
func mergeElements(list []json.RawMessage, want map[string]string, gone []string, connectors bool) []json.RawMessage {
	var out []json.RawMessage
	left := maps.Clone(want)
	for _, raw := range list {
		element, err := parseObject(raw)
		if err != nil {
			out = append(out, raw)
			continue
		}
		name, value := pairOf(element)
		wanted, ours := left[name]
		delete(left, name)
		switch {
		case ours && wanted != value:
			element.set(valueKey(element), quote(wanted))
			out = append(out, element.bytes())
		case !slices.Contains(gone, name):
			out = append(out, raw)
		}
	}
	out = append(out, connector.Map(slices.Sorted(maps.Keys(left)),
		func(name string) json.RawMessage { return newElement(name, left[name], connectors) })...)
	return out
}

func valueKey(element object) string {
	if isConnector(element) {
		return connectorID
	}
	return pairValue
}
