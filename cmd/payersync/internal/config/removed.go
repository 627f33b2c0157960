package config

import (
	"strconv"
	"strings"

	yaml "go.yaml.in/yaml/v4"

	"payersync/cmd/payersync/internal/usage"
	"payersync/mapping/strict"
)

// refuseRemoved returns one problem for each removed key in a file, with its replacement. An unreadable file
// has none here: its reader reports the mistakes.
func refuseRemoved(name string, data []byte, removed []usage.Removed) error {
	_, doc, err := strict.Load(name, data, map[string]any{})
	if err != nil {
		return nil
	}
	var problems []strict.Problem
	for _, r := range removed {
		for _, at := range find(doc, nil, strings.Split(strings.ReplaceAll(r.Name, "[]", ".[]"), ".")) {
			problems = append(problems, doc.KeyProblem(at, "%s was removed; %s", at, r.Instead))
		}
	}
	return strict.NewError(problems)
}

// find returns the places reached by steps below at. The step [] leads to each element of a list.
func find(doc *strict.Doc, at strict.Path, steps []string) (found []strict.Path) {
	node := doc.Node(at)
	switch {
	case node == nil:
		return nil
	case len(steps) == 0:
		return []strict.Path{at}
	case steps[0] != "[]":
		return find(doc, at.Key(steps[0]), steps[1:])
	case node.Kind != yaml.SequenceNode:
		return nil
	}
	for i := range node.Content {
		found = append(found, find(doc, at.Key(strconv.Itoa(i)), steps[1:])...)
	}
	return found
}
