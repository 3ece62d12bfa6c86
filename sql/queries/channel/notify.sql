-- purpose: send payloads over a channel, in a transaction that writes nothing: one that writes would hold the global
--          commit lock of NOTIFY while it waits for its flush
-- caller:  db::notifier
-- index:   none
-- locks:   none on tables
SELECT pg_notify($1, p) FROM unnest($2::text[]) p
