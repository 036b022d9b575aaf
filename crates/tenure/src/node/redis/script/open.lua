-- If the lock is the owner's, deletes it; and if somebody is in line, leaves it to those outside for a
-- moment. The label is a key of this call only if there is one.
if name_of(owner_of(KEYS.lock)) ~= ARGV.owner then
    return OUTCOME.NOT_HELD
end
redis.call('DEL', KEYS.lock)
if KEYS.label then
    redis.call('DEL', KEYS.label)
end
if redis.call('ZCARD', KEYS.line) == 0 then
    return OUTCOME.DONE
end
redis.call('SET', KEYS.open, 1, 'PX', LIMIT.OPENING)
return OUTCOME.OPENED
