-- The jobs that every tenant has, for those that were there before.

INSERT INTO jobs (tenant, kind, subject, due)
SELECT tenant, kind, '', 0 FROM tenants CROSS JOIN (SELECT 'janitor' AS kind UNION ALL SELECT 'retention') WHERE true
ON CONFLICT DO NOTHING;
