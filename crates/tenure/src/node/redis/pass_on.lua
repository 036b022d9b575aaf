-- If the lock is the owner's, sets it aside for the first waiter that listens, or deletes it.
-- KEYS: lock, waiters in line, what is there while it is open; if needed: fence, label   ARGV: owner, and if wanted the ticket with which to get in line first
-- 0 if it is not the owner's, 1 if it was deleted, else the ticket that it is set aside for.
if name_of(owner_of(KEYS[1])) ~= ARGV[1] then
    return 0
end
-- Ahead of those who came later: where nobody is before us, it comes back to us. It is deleted first: a server whose memory
-- is full lets nobody get in line, and that must not keep the lock.
if ARGV[2] then
    redis.call('DEL', KEYS[1])
    line_up(KEYS[2], KEYS[4], ARGV[2])
end
local ticket = pass_on(KEYS[1], KEYS[2], KEYS[3])
if not ticket then
    redis.call('DEL', KEYS[1])
end
if KEYS[5] then
    redis.call('DEL', KEYS[5])
end
return ticket or 1
