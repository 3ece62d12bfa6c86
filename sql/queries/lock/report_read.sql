-- purpose: read what the nodes said of their locks since they were asked
-- caller:  store::lock::report
-- index:   lock_report_pkey
-- locks:   none
SELECT r.incarnation, r.locks FROM lock_report r WHERE r.at >= $1
