-- Imports write messages faster. Those that are indexed later need no document until then: their room has the `seq` of
-- the first one. And a room is locked while messages are added and while it is removed, so that checking the key of each
-- message is not needed: it took as long as writing the message.

ALTER TABLE rooms ADD COLUMN unindexed BIGINT; -- NULL: all messages are indexed
CREATE INDEX rooms_unindexed ON rooms (tenant, number) WHERE unindexed IS NOT NULL;

ALTER TABLE messages DROP CONSTRAINT messages_tenant_room_fkey;
