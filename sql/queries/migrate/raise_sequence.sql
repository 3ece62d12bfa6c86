-- purpose: raise a sequence to a number, unless it is there already
-- caller:  db::migrate
-- index:   none
-- locks:   the sequence, for the statement; it waits for transactions that have drawn from it
SELECT raise_sequence($1, $2) AS raised
