-- Memories that summarize the other memories of their cluster.

ALTER TABLE memories ADD COLUMN summary BIGINT NOT NULL DEFAULT 0;

CREATE INDEX memories_summaries ON memories (tenant, scope) WHERE summary = 1;
