-- +goose Up
-- By which status and the metrics count without reading every row whole.
CREATE INDEX payers_link_state ON payers (connection, link_state);
CREATE INDEX mandates_status ON mandates (status);
CREATE INDEX inbox_state ON inbox (state);

-- By which a person's words are found that end what is told of a payer.
CREATE INDEX payers_stays ON payers (connection, source_id) WHERE stays_at <> 0;
CREATE INDEX payers_let_be ON payers (connection, source_id) WHERE let_be <> 0;
