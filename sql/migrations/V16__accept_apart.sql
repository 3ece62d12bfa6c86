-- A start that loses its activation key to a rival of the same moment takes its idempotency key back, which the calling
-- statement has just written: so the other starts of its batch stay accepted, and nothing is refused by an error.
CREATE FUNCTION activation_refused(of_tenant text, of_route text, of_key text) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    -- Volatile, so that it sees what its own statement wrote before.
    DELETE FROM request r WHERE r.tenant_id = of_tenant AND r.route = of_route AND r.key = of_key;
    RETURN true;
END $$;
