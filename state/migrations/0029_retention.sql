-- +goose Up
-- What is kept for a time only, oldest first: the bodies of webhooks that are done with, and
-- what settled changes were to write.
CREATE INDEX inbox_bodies ON inbox (coalesce(processed_at, received_at)) WHERE body <> x'' AND (state = 'reflected' OR state = 'superseded' OR state = 'ignored');
CREATE INDEX changes_details ON changes (updated_at)
  WHERE (wanted IS NOT NULL OR diff IS NOT NULL OR body IS NOT NULL OR pre_image IS NOT NULL) AND (state = 'done' OR state = 'failed' OR state = 'held' OR state = 'void');
