package state

import (
	"database/sql/driver"
	"fmt"

	"payersync/connector"
)

// bound returns the arguments of a statement as every database takes them: a bool as 0 or 1,
// and text without a U+0000 or broken characters, which are shown as U+FFFD. Every statement
// of writes and readers goes by here. What comes from outside and names something is looked
// at where it comes in (connector.Indexed), because cleaned texts may be alike.
func bound(args []any) ([]any, error) {
	if len(args) == 0 {
		return nil, nil
	}
	out := make([]any, len(args))
	for i, arg := range args {
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
