-- Deletes the locks under a prefix, a page at a time, if the node's record is the one that the
-- client knows. What other libraries have is theirs, and what is only set aside is nobody's.
local now = redis.call('TIME')
local told = {now[1] * 1000000 + now[2]}
if redis.call('GETRANGE', KEYS.record, 0, 15) ~= ARGV.nonce then
    told[2] = OUTCOME.STRANGER
    return told
end
local page = redis.call('SCAN', ARGV.cursor, 'MATCH', ARGV.pattern, 'COUNT', 100)
told[2] = page[1]
for _, key in ipairs(page[2]) do
    local owner, count = name_of(redis.pcall('GETRANGE', key, 0, 127)), -1
    local is_ours = owner == LIMIT.SHARED or #owner == 40 and not string.find(owner, '[^0-9a-f]')
        or type(owner) == 'string' and #owner == 40 + #LIMIT.KEPT and string.find(owner, LIMIT.KEPT, 1, true) == 1
    if type(owner) == 'table' then
        owner, count = group_of(key), 0
        is_ours = owner
    end
    if is_ours and string.sub(key, 1, 7) ~= 'tenure~' then
        told[#told + 1] = key
        told[#told + 1] = owner
        told[#told + 1] = redis.call('PTTL', key)
        told[#told + 1] = count
        local beside = '{' .. key .. '}'
        redis.call('DEL', key, 'tenure~holds:' .. beside, 'tenure~healed:' .. beside, 'tenure~group:' .. beside)
    end
end
return told
