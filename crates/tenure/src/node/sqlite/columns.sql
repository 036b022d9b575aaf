-- What a store of an older version lacks (see schema.sql), a line for each column. Those versions
-- do not mind them.
ALTER TABLE names ADD COLUMN shared_fence INTEGER;
ALTER TABLE names ADD COLUMN alone_fence INTEGER;
ALTER TABLE names ADD COLUMN fence_owner TEXT;
ALTER TABLE waiters ADD COLUMN note TEXT;
