-- Deletes the lock if it is the owner's, as the acquire set it. Without the time, which would cost as
-- much again.
if owner_of(KEYS.lock) ~= ARGV.owner then
    return OUTCOME.NOT_HELD
end
redis.call('DEL', KEYS.lock)
return OUTCOME.DONE
