package state

import "payersync/connector"

// tell stores a finding that no fact gives: the next write about the record ends it.
func (tx *Tx) tell(connection, sourceID string, topic Topic, reason connector.Reason, detail string) error {
	return tx.replaceFindings(findings{RecordID{connection, sourceID}, map[Topic]finding{topic: {reason, detail}}})
}
