-- Memories that are learned from conversations. Learning is a run that can be undone, like the janitor's; its rows in
-- janitor_undo are the memories it added. The kind of a run is janitor or learning.

ALTER TABLE janitor_runs ADD COLUMN kind TEXT NOT NULL DEFAULT 'janitor';

CREATE TABLE learned_messages (
  tenant TEXT NOT NULL,
  scope TEXT NOT NULL, -- of the memories
  message TEXT NOT NULL, -- the hash of a message that was read
  run INTEGER NOT NULL, -- 0 if nothing was learned
  PRIMARY KEY (tenant, scope, message)
) STRICT, WITHOUT ROWID;

CREATE INDEX learned_messages_by_run ON learned_messages (tenant, run);

INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
  ('learned_messages', 'learned_messages', '100000 50000 100 1'),
  ('learned_messages', 'learned_messages_by_run', '100000 50000 20');
