package xerotest

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
)

// AddGroup makes a contact group and returns its id.
func (s *Server) AddGroup(name string) string {
	defer s.lock()()
	id := guid(-1000 - len(s.groups))
	s.groups = append(s.groups, Group{id, name})
	return id
}

// Members returns the ids of the contacts in a group, in the order in which contacts were added.
func (s *Server) Members(group string) []string {
	defer s.lock()()
	return s.members(group)
}

func (s *Server) members(group string) (ids []string) {
	for _, c := range s.contacts {
		if slices.ContainsFunc(c.ContactGroups, func(g Group) bool { return g.ContactGroupID == group }) {
			ids = append(ids, c.ContactID)
		}
	}
	return ids
}

// Emptied reports whether somebody took all contacts out of a group at once.
func (s *Server) Emptied() bool {
	defer s.lock()()
	return s.emptied
}

// groupsPath is where the contact groups are.
const groupsPath = "/api.xro/2.0/ContactGroups"

// group answers a request about contact groups. Whether it moves the contacts' time of edit is
// not known of Xero; the model does.
func (s *Server) group(r *http.Request) answer {
	parts := strings.Split(strings.Trim(strings.TrimPrefix(r.URL.Path, groupsPath), "/"), "/")
	at := slices.IndexFunc(s.groups, func(g Group) bool { return g.ContactGroupID == parts[0] })
	switch {
	case parts[0] == "" && r.Method == http.MethodGet:
		out := []any{}
		for _, g := range s.groups {
			out = append(out, map[string]any{"ContactGroupID": g.ContactGroupID, "Name": g.Name, "Status": "ACTIVE",
				"HasValidationErrors": false})
		}
		return ok(map[string]any{"Status": "OK", "ContactGroups": out})
	case at < 0:
		return text(http.StatusNotFound, "text/html", "The resource you're looking for cannot be found")
	case len(parts) == 1 && r.Method == http.MethodGet:
		contacts := []any{}
		for _, id := range s.members(parts[0]) {
			contacts = append(contacts, map[string]any{"ContactID": id, "Name": s.byID[id].Name})
		}
		g := s.groups[at]
		return ok(map[string]any{"Status": "OK",
			"ContactGroups": []any{map[string]any{"ContactGroupID": g.ContactGroupID, "Name": g.Name, "Status": "ACTIVE",
				"Contacts": contacts}}})
	case len(parts) == 2 && parts[1] == "Contacts" && r.Method == http.MethodPut:
		return s.join(s.groups[at], r)
	case len(parts) == 2 && parts[1] == "Contacts" && r.Method == http.MethodDelete:
		s.emptied = true
		for _, id := range s.members(parts[0]) {
			s.leave(parts[0], id)
		}
		return text(http.StatusNoContent, "application/json", "")
	case len(parts) == 3 && parts[1] == "Contacts" && r.Method == http.MethodDelete:
		if s.byID[parts[2]] == nil {
			return text(http.StatusNotFound, "text/html", "The resource you're looking for cannot be found")
		}
		s.leave(parts[0], parts[2])
		return text(http.StatusNoContent, "application/json", "")
	}
	return text(http.StatusMethodNotAllowed, "application/json", `{}`)
}

// join puts contacts into a group, all of them or none.
func (s *Server) join(g Group, r *http.Request) answer {
	var body struct{ Contacts []struct{ ContactID string } }
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		return invalid(err)
	}
	added := []any{}
	for _, c := range body.Contacts {
		found := s.byID[c.ContactID]
		if found == nil || found.ContactStatus != "ACTIVE" {
			return text(http.StatusBadRequest, "application/json",
				`{"ErrorNumber":10,"Type":"ValidationException","Message":"A validation exception occurred","Elements":[]}`)
		}
		added = append(added, map[string]any{"ContactID": c.ContactID, "Addresses": []any{}, "Phones": []any{},
			"ContactGroups": []any{}, "ContactPersons": []any{}, "HasValidationErrors": false, "ValidationErrors": []any{}})
	}
	for _, c := range body.Contacts {
		found := s.byID[c.ContactID]
		if !slices.Contains(found.ContactGroups, g) {
			found.ContactGroups = append(slices.Clone(found.ContactGroups), g)
		}
		found.Updated = s.Now()
	}
	return ok(map[string]any{"Status": "OK", "Contacts": added})
}

func (s *Server) leave(group, contact string) {
	c := s.byID[contact]
	c.ContactGroups = slices.DeleteFunc(slices.Clone(c.ContactGroups),
		func(g Group) bool { return g.ContactGroupID == group })
	c.Updated = s.Now()
}
