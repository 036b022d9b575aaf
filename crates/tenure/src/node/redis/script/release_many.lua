-- Ends several locks, each as `release`, the text of release.lua, does without a ticket: the first
-- in line is next.
--
-- KEYS: the locks; then the line of each; then the labels of those that may have one
--
-- ARGV: the owner of each
--
-- DONE if each was its owner's and nobody is in line for it. Else for each what it answers.
local count = #ARGV
local owners, all = redis.call('MGET', unpack(KEYS, 1, count)), true
for i = 1, count do
    all = all and owners[i] == ARGV[i]
end
if all and redis.call('EXISTS', unpack(KEYS, count + 1, 2 * count)) == 0 then
    redis.call('DEL', unpack(KEYS, 1, count))
    if #KEYS > 2 * count then
        redis.call('DEL', unpack(KEYS, 2 * count + 1))
    end
    return OUTCOME.DONE
end
local told, labels = {}, {}
for i = 2 * count + 1, #KEYS do
    labels[KEYS[i]] = KEYS[i]
end
for i = 1, count do
    -- Rarely needed, and dear as keys of each: what is beside the line.
    local line = KEYS[count + i]
    local function beside(kind)
        return kind .. string.sub(line, #'tenure~queue:' + 1)
    end
    local keys = {KEYS[i], line, beside('tenure~open:'), beside('tenure~fence:'), labels[beside('tenure~label:')]}
    -- What is wrong with one of them must not stop the others.
    local done, answer = pcall(release, keys, {ARGV[i]})
    if not done and type(answer) ~= 'table' then
        answer = {err = answer}
    end
    told[i] = answer
end
return told
