-- A start is born claimed if the node that accepts it has a worker free for it: one by one, no longer a batch as a whole.
ALTER TYPE accept_start ADD ATTRIBUTE claimed boolean;
