-- What operators see of the cluster, and what signs the tokens of resume URLs.

-- It is about to stop: nothing new is claimed, what it has is finished or handed back.
ALTER TABLE node ADD COLUMN draining boolean NOT NULL DEFAULT false;

-- When the row was accepted that was given up; null for letters that are older than this column, and for delays.
ALTER TABLE dead_letter ADD COLUMN accepted_at timestamptz;

-- What each node says of its locks when somebody asks: names and waiting are known to the process alone. Unlogged, as it
-- is worth nothing a moment later.
CREATE UNLOGGED TABLE lock_report (
    incarnation bigint PRIMARY KEY,
    at timestamptz NOT NULL,
    locks json NOT NULL
) WITH (fillfactor = 50);

-- Signs tokens, unless the nodes are given a secret of their own: made once, from two random UUIDs (244 random bits).
CREATE TABLE token_key (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    key bytea NOT NULL
);
INSERT INTO token_key (key) VALUES (sha256(convert_to(gen_random_uuid()::text || gen_random_uuid()::text, 'UTF8')));

-- The row that an idempotency key stands for, whose fate is the answer; null for keys of starts and events, and for those
-- that are older than this column.
ALTER TABLE request ADD COLUMN work_id bigint;
