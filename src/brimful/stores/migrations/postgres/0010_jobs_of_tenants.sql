-- The jobs that every tenant has, for those that were there before. The owner of the tables reads and writes the rows
-- of all tenants meanwhile.

ALTER TABLE jobs NO FORCE ROW LEVEL SECURITY;
ALTER TABLE tenants NO FORCE ROW LEVEL SECURITY;
ALTER TABLE embedding_queue NO FORCE ROW LEVEL SECURITY;

INSERT INTO jobs (tenant, kind, subject, due) SELECT tenant, 'janitor', '', 0 FROM tenants ON CONFLICT DO NOTHING;
INSERT INTO jobs (tenant, kind, subject, due) SELECT tenant, 'retention', '', 0 FROM tenants ON CONFLICT DO NOTHING;
INSERT INTO jobs (tenant, kind, subject, due)
SELECT DISTINCT tenant, 'embed', embedder, 0 FROM embedding_queue ON CONFLICT DO NOTHING;

ALTER TABLE jobs FORCE ROW LEVEL SECURITY;
ALTER TABLE tenants FORCE ROW LEVEL SECURITY;
ALTER TABLE embedding_queue FORCE ROW LEVEL SECURITY;
