-- Memories of a user, or of users whose ids start with a prefix; and pages of all memories, newest first.

CREATE INDEX memories_by_user ON memories (tenant, user_id);
CREATE INDEX memories_by_time ON memories (tenant, at DESC, id);

INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
  ('memories', 'memories_by_user', '100000 50000 100'),
  ('memories', 'memories_by_time', '100000 50000 2 1');
