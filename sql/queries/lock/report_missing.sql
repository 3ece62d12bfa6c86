-- purpose: count the live nodes that have not reported since a time
-- caller:  store::lock::report
-- index:   node_pkey, lock_report_pkey
-- locks:   none
SELECT count(*) AS missing
FROM node n
LEFT JOIN lock_report r ON r.incarnation = n.incarnation
WHERE n.last_seen >= clock_timestamp() - n.tolerance AND (r.at IS NULL OR r.at < $1)
