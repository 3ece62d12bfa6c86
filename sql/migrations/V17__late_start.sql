-- A start under an id that its caller chose asks whether the id is taken in the snapshot of its statement. An instance that
-- was started, committed and left no row of work since then is in neither that snapshot nor the way of the new row.
-- plpgsql reads in a snapshot of its own: called after the row is in, it sees that instance, and the statement fails as it
-- does when the row meets a rival's.
CREATE FUNCTION start_came_late(of_tenant text, of_instance text) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM 1 FROM instance i WHERE i.tenant_id = of_tenant AND i.id = of_instance;
    IF FOUND THEN
        RAISE EXCEPTION 'an instance took the id while its start was accepted' USING ERRCODE = 'unique_violation';
    END IF;
    RETURN false;
END $$;
