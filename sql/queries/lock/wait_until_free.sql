-- purpose: wait, bounded, until the liveness lock of a neighbour is free: its process is gone then
-- caller:  store::lock
-- index:   none
-- locks:   advisory (liveness of the neighbour), for as long as the statement runs
SELECT wait_for_lock($1, $2) AS is_free
