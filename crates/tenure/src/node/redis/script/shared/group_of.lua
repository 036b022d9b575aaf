-- Whose holds a reentrant lock has: the owner's id. Nothing if it is another library's, or no lock:
-- holds count only beside their owner in the lock.
local function group_of(lock)
    local id = string.match(redis.call('GET', 'tenure~group:{' .. lock .. '}') or '', '^%d* (.*)$')
    return id and redis.pcall('HEXISTS', lock, id) == 1 and id
end

