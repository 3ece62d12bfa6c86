-- purpose: begin a change of users, roles or applications: such changes come one after the other, and nodes forget what they
--          remember of callers
-- caller:  store::identity, first in its transaction
-- index:   none; revision has one row
-- locks:   revision
UPDATE revision SET identity = identity + 1 WHERE only_row RETURNING identity
