-- purpose: note an attempt that changed nothing else
-- caller:  store::audit
-- index:   audit_pkey
-- locks:   none
INSERT INTO audit (tenant_id, action, outcome, client_address, instance_id, link_id)
VALUES ($1, $2, $3, $4, $5, $6)
