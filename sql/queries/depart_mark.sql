-- purpose: mark an incarnation as departing before its fence rows can be had: it holds them in a commit that does not end
-- caller:  store::depart
-- index:   departed_pkey
-- locks:   none
INSERT INTO departed (incarnation, node_id, crashed)
SELECT $1, $2, $3 AND coalesce((SELECT n.postmaster_started_at = pg_postmaster_start_time() FROM node n
                         WHERE n.incarnation = $1), false)
ON CONFLICT DO NOTHING
