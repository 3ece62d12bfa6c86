-- purpose: read the records with the entries of a page of an instance's journal, in order, each with the number of
--          entries before it, and the number in all
--          Planned for each call: only the partitions between the times of the instance, $5 and $6, are locked.
-- caller:  store::record::journal
-- index:   burst_record_pkey
-- locks:   none
SELECT p.total, p.earlier, r.first_entry, r.began_at, r.body
FROM (SELECT c.version, c.at, c.entries, sum(c.entries) OVER () AS total,
             sum(c.entries) OVER (ORDER BY c.version, c.at) - c.entries AS earlier
      FROM burst_record c
      WHERE c.instance_id = $2 AND c.tenant_id = $1 AND c.at BETWEEN $5 AND $6) p
JOIN burst_record r ON r.instance_id = $2 AND r.version = p.version AND r.at = p.at AND r.tenant_id = $1
    AND r.at BETWEEN $5 AND $6
WHERE p.entries > 0 AND p.earlier < $4::bigint + $3::bigint AND p.earlier + p.entries > $4::bigint
ORDER BY p.version, p.at
