-- Deletes the lock if it is the owner's, as the acquire set it. Without the time, which would cost as much again.
-- KEYS: lock   ARGV: owner
-- 1 if it was deleted, 0 if it is not the owner's.
if owner_of(KEYS[1]) == ARGV[1] then
    return redis.call('DEL', KEYS[1])
end
return 0
