-- Who works on the queue. A node writes its row again and again, by the database's clock, and removes it when it
-- stops; the row of one that was lost stays for a while. It names accounts by their numbers alone.
CREATE TABLE IF NOT EXISTS river.nodes (
    node_id    TEXT COLLATE "C" PRIMARY KEY, -- as River knows it
    name       TEXT NOT NULL,
    version    TEXT NOT NULL,
    addresses  TEXT[] NOT NULL,              -- that it answers on
    started_at TIMESTAMPTZ NOT NULL,
    seen_at    TIMESTAMPTZ NOT NULL,
    stopping   BOOLEAN NOT NULL,
    accounts   BIGINT NOT NULL,              -- how many are open on it
    unopened   BIGINT[] NOT NULL,            -- those that it could not open
    runs       BIGINT NOT NULL               -- that it has under way
);
-- Nodes of older releases leave these out.
ALTER TABLE river.nodes ADD COLUMN IF NOT EXISTS pages TEXT;                     -- http or https, '' for a node without pages
ALTER TABLE river.nodes ADD COLUMN IF NOT EXISTS clock_seconds DOUBLE PRECISION; -- by which its clock is ahead of the database's
