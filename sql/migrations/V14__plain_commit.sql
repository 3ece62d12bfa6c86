-- The commit contract: what nearly every burst has travels in its row, so that a batch of such bursts is one array and is
-- not joined to others.
ALTER TYPE commit_request
    -- The row of work that it was born of, if that is all it was born of; of a burst that goes on, the one to go on under.
    ADD ATTRIBUTE work_id bigint,
    ADD ATTRIBUTE claim_no bigint,
    -- It yielded.
    ADD ATTRIBUTE continues boolean,
    -- Its record; null: none.
    ADD ATTRIBUTE first_entry bigint,
    ADD ATTRIBUTE entries integer,
    ADD ATTRIBUTE record text;
DROP TYPE commit_record;

-- A batch in a shape that frees nothing meets instances that may hold something.
CREATE FUNCTION activation_refuses() RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the node sends this batch again, as one that looks at what instances hold' USING ERRCODE = 'MSACT';
END $$;
