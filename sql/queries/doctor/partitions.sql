-- purpose: the next days for which there is no partition of records; without one no burst commits
-- caller:  store::doctor::tables
-- index:   none: lookups by name in the catalog
-- locks:   none
SELECT 'burst_record has no partition for ' || d.day AS what, NULL::timestamptz AS since, NULL::text AS remedy
FROM (SELECT (now() AT TIME ZONE 'UTC')::date + n AS day FROM generate_series(0, 2) n) d
WHERE NOT EXISTS (SELECT 1 FROM pg_inherits i
                  WHERE i.inhparent = to_regclass('burst_record')
                    AND i.inhrelid = to_regclass(quote_ident(current_schema()) || '.burst_record_' || to_char(d.day, 'YYYYMMDD')))
ORDER BY d.day
