-- purpose: databases whose transaction ids are about to run out
-- caller:  store::doctor::server
-- index:   none
-- locks:   none
SELECT format('database %s has not frozen %s transaction ids and %s multixacts, of two thousand million', d.datname,
              age(d.datfrozenxid), mxid_age(d.datminmxid)) AS what,
       NULL::timestamptz AS since, NULL::text AS remedy
FROM pg_database d
WHERE greatest(age(d.datfrozenxid), mxid_age(d.datminmxid)) > 1000000000
ORDER BY greatest(age(d.datfrozenxid), mxid_age(d.datminmxid)) DESC
LIMIT 10
