package sqltable

import "time"

// SetPatience makes tests wait less long.
func (s *Source) SetPatience(d time.Duration) { s.patience = d }
