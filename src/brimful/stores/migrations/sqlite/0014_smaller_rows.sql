-- Less to store for each message. A document that waits for a vector names its passage already.

DROP INDEX embedding_queue_by_passage;
ALTER TABLE embedding_queue DROP COLUMN passage;

-- Hashes of counted texts are shorter. Texts are counted again when they are next needed.
DELETE FROM token_counts;
