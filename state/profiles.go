package state

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"

	"payersync/connector"
)

// Profile is the index's data of an unlinked customer, for comparing it with records.
type Profile struct {
	connector.RemoteCustomer // without mandate, flags and raw form
}

// profileBody is a profile as it is sealed. The index holds the customer's externalData.
type profileBody struct {
	Name      string              `json:"name,omitempty"`
	Emails    []string            `json:"emails,omitempty"`
	Phones    []string            `json:"phones,omitempty"`
	Addresses []connector.Address `json:"addresses,omitempty"`
}

func placeOfProfile(billingID string) []byte {
	return place("remote_profiles", "profile", billingID)
}

// profileOf returns the index's form of a customer's profile, and a digest of it.
func (l *Ledger) profileOf(c connector.RemoteCustomer) (body []byte, digest string, err error) {
	if body, err = json.Marshal(profileBody{c.Name, c.Emails, c.Phones, c.Addresses}); err != nil {
		return nil, "", err
	}
	pairs, err := json.Marshal(c.ExternalData) // a company number may be among them
	return body, l.seal.digest(append(pairs, body...), placeOfProfile(c.ID)), err
}

// saveProfile stores the profile of an observed customer. It stores none for linked customers, and for customers
// possibly of a forgotten payer.
func (tx *Tx) saveProfile(k *Known) error {
	if k.Ours {
		if k.index.profile == "" {
			return nil
		}
		return tx.exec("DELETE FROM remote_profiles WHERE billing_id = ?", k.CustomerID)
	}
	c := *k.Customer
	c.ExternalData = k.pairs
	body, digest, err := tx.l.profileOf(c)
	if err != nil {
		return err
	}
	mandate := k.index.mandate
	if k.Mandate != nil {
		mandate = string(k.Mandate.Status)
	}
	if digest == k.index.profile {
		if mandate == k.index.mandate {
			return nil
		}
		return tx.exec("UPDATE remote_profiles SET mandate_status = ? WHERE billing_id = ?", mandate, k.CustomerID)
	}
	shown, err := json.Marshal(k.entry.traits)
	if err != nil {
		return err
	}
	return tx.exec(`INSERT INTO remote_profiles (billing_id, profile, digest, mandate_status, saved) SELECT ?2, ?3, ?4, ?5,
		1 + max(coalesce((SELECT max(saved) FROM remote_profiles), 0), coalesce((SELECT max(matched_to) FROM connections), 0)) WHERE NOT `+ofForgottenKey+`
		ON CONFLICT (billing_id) DO UPDATE SET profile = excluded.profile, digest = excluded.digest, mandate_status = excluded.mandate_status, saved = excluded.saved`,
		string(shown), k.CustomerID, tx.l.seal.box(body, placeOfProfile(k.CustomerID)), digest, mandate)
}

// ofForgottenKey is the condition that one of the traits in ?1 is the key of a forgotten payer. Then the index may keep
// only the keys of the customer, because that payer may turn out to own it.
const ofForgottenKey = `EXISTS (SELECT 1 FROM source_records r INDEXED BY source_records_forgotten JOIN payers p ON p.connection = r.connection AND p.source_id = r.source_id
	WHERE r.forgotten <> '' AND p.key_name || '=' || p.key_value IN (SELECT t.value ->> 'Value' FROM json_each(?1) t WHERE t.value ->> 'Kind' = 'key'))`

// profilePage is how many profiles are read at once.
const profilePage = 500

// Profiles yields the unlinked customers of the index, page by page, in the order of their ids.
func (l *Ledger) Profiles(ctx context.Context) iter.Seq2[[]Profile, error] {
	return func(yield func([]Profile, error) bool) {
		for after := ""; ; {
			page, err := l.profiles(ctx,
				"f.billing_id > ?1 AND NOT EXISTS (SELECT 1 FROM payers p WHERE p.billing_id = f.billing_id) ORDER BY f.billing_id"+limitTo, after, profilePage)
			if err != nil || len(page) == 0 {
				if err != nil {
					yield(nil, err)
				}
				return
			}
			if after = page[len(page)-1].ID; !yield(page, nil) {
				return
			}
		}
	}
}

// ProfilesOf returns the profiles of customers, as far as the index has them.
func (l *Ledger) ProfilesOf(ctx context.Context, billingIDs ...string) ([]Profile, error) {
	ids, err := json.Marshal(billingIDs)
	if err != nil {
		return nil, err
	}
	return l.profiles(ctx, "f.billing_id IN (SELECT value FROM json_each(?1)) ORDER BY f.billing_id", string(ids))
}

func (l *Ledger) profiles(ctx context.Context, where string, args ...any) ([]Profile, error) {
	type row struct {
		id, pairs string
		box       []byte
	}
	rows, err := list(ctx, l,
		`SELECT c.billing_id, c.key_values, f.profile FROM remote_profiles f JOIN remote_customers c ON c.billing_id = f.billing_id
		WHERE c.digest <> '' AND `+where, args, func(r *row) []any { return []any{&r.id, &r.pairs, &r.box} })
	if err != nil {
		return nil, fmt.Errorf("read the profiles of customers: %w", err)
	}
	out := make([]Profile, len(rows))
	for i, r := range rows {
		plain, err := l.seal.open(r.box, placeOfProfile(r.id))
		if err != nil {
			return nil, fmt.Errorf("the profile of customer %s: %w", r.id, err)
		}
		var body profileBody
		c := &out[i].RemoteCustomer
		if err := json.Unmarshal(plain, &body); err != nil {
			return nil, fmt.Errorf("the profile of customer %s: %w", r.id, err)
		}
		if err := json.Unmarshal([]byte(r.pairs), &c.ExternalData); err != nil {
			return nil, fmt.Errorf("read what customer %s carries: %w", r.id, err)
		}
		c.ID, c.Name, c.Emails, c.Phones, c.Addresses = r.id, body.Name, body.Emails, body.Phones, body.Addresses
	}
	return out, nil
}

// LinkedPages yields the payers that have a customer, page by page.
func (l *Ledger) LinkedPages(ctx context.Context) iter.Seq2[[]Payer, error] {
	return func(yield func([]Payer, error) bool) {
		for after := ""; ; {
			page, err := l.payers(ctx,
				"SELECT "+payerColumns+" FROM payers p WHERE p.billing_id > ? ORDER BY p.billing_id"+limitTo, after, profilePage)
			if err != nil || len(page) == 0 {
				if err != nil {
					yield(nil, err)
				}
				return
			}
			if after = page[len(page)-1].BillingID; !yield(page, nil) {
				return
			}
		}
	}
}

// KeyNames returns the names of the keys that payers have.
func (l *Ledger) KeyNames(ctx context.Context) ([]string, error) {
	return list(ctx, l, "SELECT DISTINCT key_name FROM payers WHERE key_name <> ''", nil,
		func(s *string) []any { return []any{s} })
}
