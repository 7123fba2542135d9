-- An API key may be bound to a user.

ALTER TABLE api_keys ADD COLUMN user_id TEXT; -- NULL: it may act for all users
