-- Deletes the lock if it is the owner's, as the acquire set it, and gets in line again. Nobody is woken.
-- KEYS: lock, waiters in line, fence   ARGV: owner, ticket
-- 1 if it was deleted, 0 if it is not the owner's.
if owner_of(KEYS[1]) ~= ARGV[1] then
    return 0
end
redis.call('DEL', KEYS[1])
line_up(KEYS[2], KEYS[3], ARGV[2])
return 1
