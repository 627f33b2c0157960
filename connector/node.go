package connector

import "time"

// NodeLostAfter is how long a node may say nothing before it counts as lost: it does nothing any
// more, or cannot reach the database.
const NodeLostAfter = time.Minute
