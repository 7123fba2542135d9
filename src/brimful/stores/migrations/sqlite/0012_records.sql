-- Records of contexts in a tenth of the space: instead of a row for each candidate, a context has short hashes of its
-- candidates, and each candidate that is no message of the room has one row per room. Contexts that were saved before
-- have no hashes.

ALTER TABLE snapshots ADD COLUMN items BLOB;

CREATE TABLE context_items (
  tenant TEXT NOT NULL,
  item TEXT NOT NULL,
  room TEXT NOT NULL,
  PRIMARY KEY (tenant, item, room)
) STRICT, WITHOUT ROWID;

CREATE INDEX context_items_by_room ON context_items (tenant, room);

INSERT INTO context_items (tenant, item, room)
SELECT DISTINCT i.tenant, i.item, s.room FROM inclusions i
JOIN snapshots s ON s.tenant = i.tenant AND s.number = i.snapshot;

DELETE FROM sqlite_stat1 WHERE tbl = 'inclusions';

DROP TABLE inclusions;

INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
  ('context_items', 'context_items', '1000000 500000 10 1'),
  ('context_items', 'context_items_by_room', '1000000 500000 100');
