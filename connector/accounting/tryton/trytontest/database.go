package trytontest

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// Database is one database of the server. Its methods fail the test that made it
// when Tryton refuses.
type Database struct {
	t    testing.TB
	URL  string // of the server
	Name string

	once    sync.Once
	session string
}

// ID is the number of a record.
type ID = int64

// Values are fields of a record, as JSON-RPC carries them.
type Values = map[string]any

// Call calls a method and decodes its result, unless result is nil.
func (d *Database) Call(result any, method string, params ...any) {
	d.t.Helper()
	if err := d.call(result, method, params...); err != nil {
		d.t.Fatal(err)
	}
}

func (d *Database) call(result any, method string, params ...any) error {
	d.once.Do(func() {
		var login []json.RawMessage
		var key string
		err := d.post(&login, "", "common.db.login", User, Values{"password": Password}, "en")
		if err == nil && len(login) == 2 {
			err = json.Unmarshal(login[1], &key)
		}
		if err != nil {
			d.t.Errorf("log in: %v", err)
		}
		d.session = "Session " + base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "%s:%s:%s", User, login[0], key))
	})
	return d.post(result, d.session, method, params...)
}

// EndSession makes the server forget the session that another client uses; auth
// is what it sends as Authorization.
func (d *Database) EndSession(auth string) {
	d.t.Helper()
	if err := d.post(nil, auth, "common.db.logout"); err != nil {
		d.t.Fatal(err)
	}
}

func (d *Database) post(result any, auth, method string, params ...any) error {
	if params == nil {
		params = []any{}
	}
	body, err := json.Marshal(Values{"id": 1, "method": method, "params": params})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(d.t.Context(), http.MethodPost, d.URL+"/"+d.Name+"/", bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", auth)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	var answer struct{ Result, Error json.RawMessage }
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return fmt.Errorf("%s: HTTP %d: %w", method, resp.StatusCode, err)
	}
	if answer.Error != nil {
		return fmt.Errorf("%s: %s", method, answer.Error)
	}
	if result == nil {
		return nil
	}
	return json.Unmarshal(answer.Result, result)
}

// Create makes records of a model in one transaction.
func (d *Database) Create(model string, values ...Values) []ID {
	d.t.Helper()
	var ids []ID
	d.Call(&ids, "model."+model+".create", values, Values{})
	return ids
}

// Write changes fields of a record.
func (d *Database) Write(model string, id ID, values Values) {
	d.t.Helper()
	d.Call(nil, "model."+model+".write", []ID{id}, values, Values{"active_test": false})
}

// Delete removes a record; Tryton keeps no trace of it.
func (d *Database) Delete(model string, id ID) {
	d.t.Helper()
	d.Call(nil, "model."+model+".delete", []ID{id}, Values{"active_test": false})
}

// Rows reads records of a model in the model's own order into result, inactive
// ones too where all says so.
func (d *Database) Rows(result any, model string, all bool, fields ...string) {
	d.t.Helper()
	d.Call(result, "model."+model+".search_read", []any{}, 0, nil, nil, fields, Values{"active_test": !all})
}

// Replace merges a party into another with Tryton's own assistant.
func (d *Database) Replace(loser, survivor ID) {
	d.t.Helper()
	d.wizard("party.replace", loser, "replace", Values{"ask": Values{"source": loser, "destination": survivor}})
}

// Erase deactivates a party and takes its personal data away with Tryton's own
// assistant.
func (d *Database) Erase(party ID) {
	d.t.Helper()
	d.Write("party.party", party, Values{"active": false})
	d.wizard("party.erase", party, "erase", Values{"ask": Values{"party": party}})
}

// warning matches the name of a warning that must be accepted first.
var warning = regexp.MustCompile(`"UserWarning",\["([^"]+)"`)

// wizard goes through an assistant of two steps, and accepts what it warns of as
// a user does.
func (d *Database) wizard(name string, party ID, step string, form Values) {
	d.t.Helper()
	context := Values{"active_model": "party.party", "active_id": party, "active_ids": []ID{party}}
	var session []json.RawMessage // id, first step, last step
	d.Call(&session, "wizard."+name+".create", Values{})
	d.Call(nil, "wizard."+name+".execute", session[0], Values{}, "ask", context)
	for range 5 {
		err := d.call(nil, "wizard."+name+".execute", session[0], form, step, context)
		if err == nil {
			break
		}
		asked := warning.FindStringSubmatch(strings.ReplaceAll(err.Error(), `", "`, `","`))
		if asked == nil {
			d.t.Fatal(err)
		}
		d.Create("res.user.warning", Values{"user": 1, "name": asked[1], "always": false})
	}
	d.Call(nil, "wizard."+name+".delete", session[0], Values{})
}
