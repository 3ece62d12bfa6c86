-- purpose: read the lock reports since a time
-- caller:  store::lock::report
-- index:   lock_report_pkey
-- locks:   none
SELECT r.incarnation, r.locks FROM lock_report r WHERE r.at >= $1
