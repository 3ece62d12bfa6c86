-- purpose: accept a bulk action
-- caller:  store::bulk_action
-- index:   bulk_action_pkey
-- locks:   none
INSERT INTO bulk_action (tenant_id, id, deletes, filter) VALUES ($1, $2, $3, $4)
