package state

import (
	"database/sql/driver"
	"fmt"

	"payersync/connector"
)

// bound returns the arguments of a statement in a form for every database: a bool as 0 or 1, and
// U+FFFD for U+0000 or broken characters. Every statement of writes and readers goes by here. Names
// from outside are checked at their entry (connector.Indexed), because cleaned texts may be equal.
func bound(args []any) ([]any, error) {
	if len(args) == 0 {
		return nil, nil
	}
	out := make([]any, len(args))
	for i, arg := range args {
		switch v := arg.(type) { // by far the most are fit as they are
		case nil, int64, []byte:
			out[i] = arg
			continue
		case string:
			if out[i] = arg; !connector.IsClean(v) {
				out[i] = connector.Clean(v)
			}
			continue
		}
		value, err := driver.DefaultParameterConverter.ConvertValue(arg)
		if err != nil {
			return nil, fmt.Errorf("argument %d of a ledger statement: %w", i+1, err)
		}
		switch v := value.(type) {
		case bool:
			value = int64(0)
			if v {
				value = int64(1)
			}
		case string:
			value = connector.Clean(v)
		}
		out[i] = value
	}
	return out, nil
}
