-- Less to store for each message. Vectors are found by the hash of their passage, and need no number. A document that
-- waits for a vector names its passage already.

ALTER TABLE vectors DROP COLUMN number;
ALTER TABLE vectors DROP CONSTRAINT vectors_tenant_embedder_hash_key;
ALTER TABLE vectors ADD PRIMARY KEY (tenant, embedder, hash);

ALTER TABLE embedding_queue DROP COLUMN passage;

-- Hashes of counted texts are shorter. Texts are counted again when they are next needed.
TRUNCATE token_counts;
