-- Memories of a user, or of users whose ids start with a prefix; and pages of all memories, newest first.

CREATE INDEX memories_by_user ON memories (tenant, user_id);
CREATE INDEX memories_by_time ON memories (tenant, at DESC, id);
