package xero

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"time"

	"payersync/connector/accounting"
)

// Organisation is one within a token's reach; its ID is Xero's tenant id, a GUID in lower case.
type Organisation = accounting.Organisation

// Organisations returns the token's organisations, in Xero's order, which means nothing. A Custom Connection
// has one.
func (s *Source) Organisations(ctx context.Context) ([]Organisation, error) {
	if s.config.CustomConnection {
		return s.ownOrganisation(ctx)
	}
	a, err := s.get(ctx, ask{op: "list organisations", path: "/connections"})
	if err != nil {
		return nil, err
	}
	var connections []struct {
		TenantID   string `json:"tenantId"`
		TenantType string `json:"tenantType"`
		TenantName string `json:"tenantName"`
	}
	if err := json.Unmarshal(a.Body, &connections); err != nil {
		return nil, a.unusable(errors.New("it is not the JSON of a list of connections"))
	}
	var out []Organisation
	for _, c := range connections {
		if c.TenantID != "" && c.TenantType == "ORGANISATION" {
			out = append(out, Organisation{ID: strings.ToLower(c.TenantID), Name: c.TenantName})
		}
	}
	return out, nil
}

// ownOrganisation asks the organisation itself: a Custom Connection's token is
// good for requests within its organisation only, and not for the list.
func (s *Source) ownOrganisation(ctx context.Context) ([]Organisation, error) {
	a, err := s.get(ctx, ask{op: "read the organisation", path: "/api.xro/2.0/Organisation"})
	if err != nil {
		return nil, err
	}
	var said struct {
		Organisations []struct{ OrganisationID, Name string }
	}
	if err := json.Unmarshal(a.Body, &said); err != nil || len(said.Organisations) != 1 ||
		said.Organisations[0].OrganisationID == "" {
		return nil, a.unusable(errors.New("it is not the JSON of one organisation"))
	}
	o := said.Organisations[0]
	return []Organisation{{ID: strings.ToLower(o.OrganisationID), Name: o.Name}}, nil
}

// organisation returns the organisation to read.
func (s *Source) organisation(ctx context.Context) (Organisation, error) {
	reached, err := s.Organisations(ctx)
	if err != nil {
		return Organisation{}, err
	}
	return accounting.Choose("Xero", s.config.Tenant, reached)
}

// lastsFor is how long the answer of a Custom Connection counts: a run asks once, and reads contacts at once.
const lastsFor = time.Minute

// recently remembers an organisation for a run, because requests of a Custom Connection name none.
type recently struct {
	now func() time.Time

	mu sync.Mutex
	o  Organisation
	at time.Time
}

// Known returns the organisation if it was named in the last minute.
func (r *recently) Known(context.Context) (o Organisation, known bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	age := r.now().Sub(r.at)
	return r.o, r.o.ID != "" && age >= 0 && age < lastsFor, nil
}

// Keep keeps the answer.
func (r *recently) Keep(_ context.Context, o Organisation) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.o, r.at = o, r.now()
	return nil
}

// Forget has Xero asked anew.
func (r *recently) Forget(context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.o = Organisation{}
	return nil
}
