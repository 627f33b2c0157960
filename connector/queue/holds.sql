-- Which node has a job under way. A job stands in line again after its first slice, and goes on: what keeps other
-- nodes from it is its row here, by the database's clock.
CREATE TABLE IF NOT EXISTS river.holds (
    account    BIGINT NOT NULL,
    job        TEXT COLLATE "C" NOT NULL,
    job_id     BIGINT NOT NULL,            -- of River's row
    holder     TEXT COLLATE "C" NOT NULL,  -- the node, as River knows it, and a number
    held_until TIMESTAMPTZ,                -- unless the node says so again; NULL once it has ended
    again_at   TIMESTAMPTZ,                -- when it goes on, if it ended because a remote system asked to wait
    PRIMARY KEY (account, job),
    CHECK (held_until IS NULL OR again_at IS NULL)
);
