-- If the lock is the owner's, deletes it; and if somebody is in line, leaves it to those outside for a moment.
-- KEYS: lock, waiters in line, what is there while it is open; if needed: label   ARGV: owner
-- 0 if it is not the owner's, 1 if it was deleted, 2 if it is open.
if name_of(owner_of(KEYS[1])) ~= ARGV[1] then
    return 0
end
redis.call('DEL', KEYS[1])
if KEYS[4] then
    redis.call('DEL', KEYS[4])
end
if redis.call('ZCARD', KEYS[2]) == 0 then
    return 1
end
redis.call('SET', KEYS[3], 1, 'PX', OPENING)
return 2
