-- When the jobs of every account come next. A row's next_at is moved in the transaction that hands its
-- job to River, so that a time is neither lost with a node nor taken twice.
CREATE TABLE IF NOT EXISTS river.schedules (
    account  BIGINT NOT NULL,
    job      TEXT COLLATE "C" NOT NULL CHECK (job <> ''),
    cron     TEXT NOT NULL,                  -- as worker.ParseSchedule reads it
    on_time  BOOLEAN NOT NULL,               -- a time that was missed is left out
    care     BOOLEAN NOT NULL,               -- it does not wait behind what reads and sends
    next_at  TIMESTAMPTZ NOT NULL,           -- with the account's delay
    outcome  TEXT,                           -- how it last ended; NULL for never
    ended_at TIMESTAMPTZ,
    PRIMARY KEY (account, job),
    CHECK ((outcome IS NULL) = (ended_at IS NULL))
);

CREATE INDEX IF NOT EXISTS schedules_next_at ON river.schedules (next_at);

-- Earlier versions told jobs that cannot be cut from others. Those that such a node leaves go on as all do.
ALTER TABLE river.schedules ADD COLUMN IF NOT EXISTS long BOOLEAN NOT NULL DEFAULT false;
ALTER TABLE river.schedules ALTER COLUMN long SET DEFAULT false;
UPDATE river.river_job SET kind = 'slice' WHERE kind = 'long';
