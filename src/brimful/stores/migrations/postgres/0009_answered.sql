-- Builds by the message that they answer.

CREATE INDEX snapshots_by_message ON snapshots (tenant, message) WHERE message IS NOT NULL;
