-- Since V10 it has no primary key: whoever publishes all tables of the database could delete nothing from it.
ALTER TABLE activation REPLICA IDENTITY FULL;
