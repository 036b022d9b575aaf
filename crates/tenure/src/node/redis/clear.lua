-- Deletes the locks under a prefix, a page at a time, if the node's record is the one that the client knows. What other
-- libraries have is theirs, and what is only set aside is nobody's.
-- KEYS: record   ARGV: nonce, cursor, pattern
-- The node's time in microseconds and 4: another record. Else that time, the next cursor ('0': no more), and for every lock
-- that was deleted: key, owner, time that was left in ms.
local now = redis.call('TIME')
local told = {now[1] * 1000000 + now[2]}
if redis.call('GETRANGE', KEYS[1], 0, 15) ~= ARGV[1] then
    told[2] = 4
    return told
end
local page = redis.call('SCAN', ARGV[2], 'MATCH', ARGV[3], 'COUNT', 100, 'TYPE', 'string')
told[2] = page[1]
for _, key in ipairs(page[2]) do
    local owner = name_of(redis.call('GETRANGE', key, 0, 127))
    if #owner == 40 and not string.find(owner, '[^0-9a-f]') and string.sub(key, 1, 7) ~= 'tenure~' then
        told[#told + 1] = key
        told[#told + 1] = owner
        told[#told + 1] = redis.call('PTTL', key)
        redis.call('DEL', key)
    end
end
return told
