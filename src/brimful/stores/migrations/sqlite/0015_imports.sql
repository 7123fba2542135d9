-- Imports write messages faster. Those that are indexed later need no document until then: their room has the `seq` of
-- the first one.

ALTER TABLE rooms ADD COLUMN unindexed INTEGER; -- NULL: all messages are indexed
CREATE INDEX rooms_unindexed ON rooms (tenant, number) WHERE unindexed IS NOT NULL;

INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES ('rooms', 'rooms_unindexed', '100 50 1');
