-- purpose: wait, with a timeout, until the liveness lock of another node is free: its process has ended then
-- caller:  store::lock
-- index:   none
-- locks:   advisory (liveness lock of the other node), for as long as the statement runs
SELECT wait_for_lock($1, $2) AS is_free
