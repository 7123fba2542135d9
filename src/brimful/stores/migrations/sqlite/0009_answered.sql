-- Builds by the message that they answer.

CREATE INDEX snapshots_by_message ON snapshots (tenant, message) WHERE message IS NOT NULL;

INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES ('snapshots', 'snapshots_by_message', '100000 50000 1');

ANALYZE sqlite_schema;
