-- purpose: whether the version of the server gets no more corrections, by the database's clock
-- caller:  store::doctor::server
-- index:   none
-- locks:   none
-- The last day of support of each version, as postgresql.org/support/versioning has it.
SELECT 'PostgreSQL ' || current_setting('server_version') || ' is out of support' AS what, v.ends::timestamptz AS since,
       NULL::text AS remedy
FROM (VALUES (14, date '2026-11-12'), (15, date '2027-11-11'), (16, date '2028-11-09'), (17, date '2029-11-08'),
             (18, date '2030-11-14')) v(major, ends)
WHERE v.major = current_setting('server_version_num')::integer / 10000 AND v.ends < now()
