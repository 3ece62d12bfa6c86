-- purpose: write the lock report of this node, and delete those of unregistered nodes
-- caller:  store::lock::report
-- index:   lock_report_pkey, node_pkey
-- locks:   own row of lock_report, then those of unregistered nodes; locked ones are skipped
WITH deleted AS (
    DELETE FROM lock_report r
    WHERE r.incarnation IN (SELECT g.incarnation FROM lock_report g
                            WHERE g.incarnation <> $1
                              AND NOT EXISTS (SELECT 1 FROM node n WHERE n.incarnation = g.incarnation)
                            ORDER BY g.incarnation FOR UPDATE SKIP LOCKED)
)
INSERT INTO lock_report (incarnation, at, locks) VALUES ($1, clock_timestamp(), $2)
ON CONFLICT (incarnation) DO UPDATE SET at = excluded.at, locks = excluded.locks
