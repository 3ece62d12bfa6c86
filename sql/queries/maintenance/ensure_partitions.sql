-- purpose: create the partitions of today and the days ahead
-- caller:  store::maintenance
-- index:   none
-- locks:   advisory (schema key, partitions); the parent tables, shared
SELECT ensure_partitions($1)
