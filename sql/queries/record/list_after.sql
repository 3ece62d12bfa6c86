-- purpose: read the next records of an instance in the order of its commits, after the version $3: of at most $4 bytes
--          together, at least one, with how many there were to choose from
--          Planned for each call: only the partitions between the times of the instance, $5 and $6, are locked.
-- caller:  store::record::read
-- index:   burst_record_pkey
-- locks:   none
SELECT r.version, r.first_entry, r.began_at, r.body, p.candidates
FROM (SELECT n.version, n.at, sum(n.bytes) OVER (ORDER BY n.version) - n.bytes AS earlier, count(*) OVER () AS candidates
      FROM (SELECT c.version, c.at, octet_length(c.body)::bigint AS bytes
            FROM burst_record c
            WHERE c.instance_id = $2 AND c.tenant_id = $1 AND c.at BETWEEN $5 AND $6 AND c.version > $3
            ORDER BY c.version
            LIMIT 1000) n) p
JOIN burst_record r ON r.instance_id = $2 AND r.version = p.version AND r.at = p.at AND r.tenant_id = $1
    AND r.at BETWEEN $5 AND $6
WHERE p.earlier < $4::bigint
ORDER BY r.version
