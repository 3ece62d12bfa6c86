-- purpose: write some pages and drop them again: fails on a full disk
-- caller:  store::doctor
-- index:   none
-- locks:   none on shared tables
CREATE TEMPORARY TABLE doctor_probe ON COMMIT DROP AS SELECT md5(n::text) AS line FROM generate_series(1, 10000) n
