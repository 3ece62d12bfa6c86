-- purpose: note an attempt that changed nothing else
-- caller:  store::audit
-- index:   audit_pkey
-- locks:   none
INSERT INTO audit (tenant_id, action, outcome, code, client_address, instance_id, link_id, caller_kind, caller_id, caller_name,
                   caller_issuer, method, route, target)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
