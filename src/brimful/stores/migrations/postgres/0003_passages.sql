-- Long texts are indexed in passages: a record has one document for each, numbered by `part` from 0.
-- Long texts that were indexed as one document have the part -1 until they are indexed again.

ALTER TABLE documents
  ADD COLUMN part BIGINT NOT NULL DEFAULT 0,
  ADD COLUMN start BIGINT NOT NULL DEFAULT 0, -- where the passage starts and stops in the text; both are 0 if it is all of it
  ADD COLUMN stop BIGINT NOT NULL DEFAULT 0;

ALTER TABLE documents DROP CONSTRAINT documents_tenant_kind_item_key;

ALTER TABLE documents ADD UNIQUE (tenant, kind, item, part);

-- A migration has no tenant: row-level security would hide every row.
ALTER TABLE documents NO FORCE ROW LEVEL SECURITY;

UPDATE documents SET part = -1 WHERE length >= 60;

ALTER TABLE documents FORCE ROW LEVEL SECURITY;

CREATE INDEX documents_undivided ON documents (tenant) WHERE part < 0;
