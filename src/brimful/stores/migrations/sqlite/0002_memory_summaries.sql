-- Memories that summarize the other memories of their cluster.

ALTER TABLE memories ADD COLUMN summary INTEGER NOT NULL DEFAULT 0;

CREATE INDEX memories_summaries ON memories (tenant, scope) WHERE summary = 1;

INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES ('memories', 'memories_summaries', '1000 500 10');
