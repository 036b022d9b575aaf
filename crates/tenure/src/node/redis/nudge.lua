-- If the lock is free and somebody is in line, sets it aside for the first waiter that listens.
-- KEYS: lock, waiters in line, what is there while it is open
if redis.call('EXISTS', KEYS[1]) == 0 then
    pass_on(KEYS[1], KEYS[2], KEYS[3])
end
return 1
