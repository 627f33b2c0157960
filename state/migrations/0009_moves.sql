-- +goose Up
-- Fields of others that were seen to change while an update of ours was sent, by their
-- path without places in lists: the service moves some with every update.
CREATE TABLE foreign_moves (
  path      TEXT NOT NULL,
  change_id INTEGER NOT NULL REFERENCES changes (change_id),
  PRIMARY KEY (path, change_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX foreign_moves_change ON foreign_moves (change_id);
CREATE INDEX changes_confirmed ON changes (updated_at) WHERE state = 'done' AND body IS NOT NULL AND action <> 'create';
