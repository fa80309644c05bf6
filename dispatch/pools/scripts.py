"""What a pool's ledger does in one step: the scripts that run inside Redis.

The only clock in them is Redis's own, in milliseconds. KEYS are always limits, bookings, closed and
pools of one pool. A booking stands as `at:lease:state:runs:tokens:micro-dollars`, state `r` while
it is reserved and `s` when it is settled; one whose lease ran out counts no more, and one that left
the longest window is removed. One that lies ahead, and a closing beyond its longest, come from a
clock that jumped or from a stranger: the one counts from now on, the other not at all.
Whatever is not of that form is removed as well: a stranger wrote it.
"""

from __future__ import annotations

from typing import Final

from contracts import limits

_SHARED: Final = (
    f"local CLOSED_MAX = {limits.POOL_CLOSED_MAX_S * 1_000}\n"
    """
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local PLACE = {runs = 'runs', tokens = 'tokens', dollars = 'micro'}

local function read_limits()
    local found, longest = {}, 0
    if redis.call('HLEN', KEYS[1]) > tonumber(ARGV[1]) then return found, 0 end
    local all = redis.call('HGETALL', KEYS[1])
    for i = 1, #all, 2 do
        local unit, window = string.match(all[i], '^(%a+)/(%d+)$')
        local cap, estimate = string.match(all[i + 1], '^(%d+):(%d+)$')
        if unit and PLACE[unit] and cap then
            local limit = {name = all[i], unit = PLACE[unit], window = window * 1000,
                           cap = tonumber(cap), estimate = tonumber(estimate)}
            found[#found + 1] = limit
            if limit.window > longest then longest = limit.window end
        end
    end
    return found, longest
end

local function read_booking(text)
    local at, lease, state, runs, tokens, micro =
        string.match(text, '^(%d+):(%d+):([rs]):(%d+):(%d+):(%d+)$')
    if not at then return nil end
    return {at = math.min(tonumber(at), now), ahead = tonumber(at) > now,
            lease = tonumber(lease), state = state, runs = tonumber(runs),
            tokens = tonumber(tokens), micro = tonumber(micro)}
end

local function write_booking(id, booking, longest)
    redis.call('HSET', KEYS[2], id, string.format('%.0f:%.0f:%s:%.0f:%.0f:%.0f', booking.at,
        booking.lease, booking.state, booking.runs, booking.tokens, booking.micro))
    redis.call('PEXPIRE', KEYS[2], string.format('%.0f', longest + 3600000))
end

local function counts(booking, longest)
    if not booking or booking.at <= now - longest then return false end
    return booking.state == 's' or booking.lease > now
end

local function read_closed()
    local closed = redis.call('HMGET', KEYS[3], 'until', 'why')
    local ends = tonumber(closed[1] or '')
    if not ends or ends <= now or ends > now + CLOSED_MAX then return nil, '' end
    return ends, string.sub(closed[2] or '', 1, 300)
end
"""
)

# ARGV: limits at most, bookings at most, booking id, lease in ms.
# Returns {"free"}, {"in", at, tokens, micro}, {"closed", until, why}
# or {"full", wait in ms or -1, limit, used, cap}.
ADMIT: Final = (
    _SHARED
    + """
local closed_until, why = read_closed()
if closed_until then
    return {'closed', string.format('%.0f', closed_until - now), why}
end
local limits, longest = read_limits()
if #limits == 0 then return {'free'} end
if redis.call('HLEN', KEYS[2]) > tonumber(ARGV[2]) then
    return redis.error_reply('ERR the pool has more bookings than a pool can have')
end
local rows, mine = {}, nil
local all = redis.call('HGETALL', KEYS[2])
for i = 1, #all, 2 do
    local booking = read_booking(all[i + 1])
    if counts(booking, longest) then
        if booking.ahead then write_booking(all[i], booking, longest) end
        if all[i] == ARGV[3] then mine = booking else rows[#rows + 1] = booking end
    else
        redis.call('HDEL', KEYS[2], all[i])
    end
end
if mine then
    if mine.state == 'r' then
        mine.lease = now + ARGV[4]
        write_booking(ARGV[3], mine, longest)
    end
    return {'in', string.format('%.0f', mine.at), string.format('%.0f', mine.tokens),
            string.format('%.0f', mine.micro)}
end
table.sort(rows, function(a, b) return a.at < b.at end)
local need = {runs = 1, tokens = 0, micro = 0}
for _, limit in ipairs(limits) do
    if limit.unit ~= 'runs' then need[limit.unit] = math.max(need[limit.unit], limit.estimate) end
end
local worst = nil
for _, limit in ipairs(limits) do
    local want = limit.unit == 'runs' and 1 or limit.estimate
    local used = 0
    for _, row in ipairs(rows) do
        if row.at > now - limit.window then used = used + row[limit.unit] end
    end
    if used + want > limit.cap or (want == 0 and used >= limit.cap) then
        local wait, left = -1, used
        for _, row in ipairs(rows) do
            if row.at > now - limit.window then
                left = left - row[limit.unit]
                if left + want <= limit.cap and (want > 0 or left < limit.cap) then
                    wait = row.at + limit.window - now
                    break
                end
            end
        end
        if not worst or (worst.wait >= 0 and (wait < 0 or wait > worst.wait)) then
            worst = {wait = wait, name = limit.name, used = used, cap = limit.cap}
        end
    end
end
if worst then
    return {'full', string.format('%.0f', worst.wait), worst.name,
            string.format('%.0f', worst.used), string.format('%.0f', worst.cap)}
end
write_booking(ARGV[3], {at = now, lease = now + ARGV[4], state = 'r', runs = 1,
    tokens = need.tokens, micro = need.micro}, longest)
return {'in', string.format('%.0f', now), string.format('%.0f', need.tokens),
        string.format('%.0f', need.micro)}
"""
)

# ARGV: limits at most, bookings at most, booking id, lease in ms, at, tokens, micro.
# A reservation that was lost meanwhile (an outage longer than its lease, an emptied broker) is
# taken up again: its run goes on and uses what it uses.
RENEW: Final = (
    _SHARED
    + """
local limits, longest = read_limits()
if #limits == 0 then return 0 end
local booking = read_booking(redis.call('HGET', KEYS[2], ARGV[3]) or '')
if booking and booking.state == 's' then return 0 end
local at = booking and booking.at or math.min(tonumber(ARGV[5]), now)
write_booking(ARGV[3], {at = at, lease = now + ARGV[4], state = 'r', runs = 1,
    tokens = tonumber(ARGV[6]), micro = tonumber(ARGV[7])}, longest)
return 1
"""
)

# ARGV: limits at most, bookings at most, booking id, at, runs, tokens, micro.
SETTLE: Final = (
    _SHARED
    + """
local limits, longest = read_limits()
local booking = read_booking(redis.call('HGET', KEYS[2], ARGV[3]) or '')
if booking and booking.state == 's' then return 0 end
if #limits == 0 then
    redis.call('HDEL', KEYS[2], ARGV[3])
    return 0
end
local at = booking and booking.at or math.min(tonumber(ARGV[4]), now)
if at <= now - longest then return 0 end
write_booking(ARGV[3], {at = at, lease = now, state = 's', runs = tonumber(ARGV[5]),
    tokens = tonumber(ARGV[6]), micro = tonumber(ARGV[7])}, longest)
return 1
"""
)

# ARGV: limits at most, bookings at most, until in ms or "", from now in ms, longest in ms, why,
# pool. The later end stays.
CLOSE: Final = (
    _SHARED
    + """
local wanted = tonumber(ARGV[3]) or now + ARGV[4]
wanted = math.min(wanted, now + ARGV[5])
if wanted <= now then return '0' end
local before = tonumber(redis.call('HGET', KEYS[3], 'until') or '')
if before and before >= wanted and before <= now + ARGV[5] then
    return string.format('%.0f', before)
end
local text = string.format('%.0f', wanted)
redis.call('HSET', KEYS[3], 'until', text, 'why', ARGV[6])
redis.call('PEXPIREAT', KEYS[3], text)
redis.call('SADD', KEYS[4], ARGV[7])
return text
"""
)

# ARGV: limits at most, bookings at most. Returns {now, closed until or "", why,
# {limit, cap:estimate, used, reserved}…}.
LOOK: Final = (
    _SHARED
    + """
local limits, longest = read_limits()
local shown = {}
local rows = {}
if redis.call('HLEN', KEYS[2]) <= tonumber(ARGV[2]) then
    local all = redis.call('HGETALL', KEYS[2])
    for i = 1, #all, 2 do
        local booking = read_booking(all[i + 1])
        if counts(booking, longest) then rows[#rows + 1] = booking end
    end
end
for _, limit in ipairs(limits) do
    local used, reserved = 0, 0
    for _, row in ipairs(rows) do
        if row.at > now - limit.window then
            used = used + row[limit.unit]
            if row.state == 'r' then reserved = reserved + row[limit.unit] end
        end
    end
    shown[#shown + 1] = {limit.name, string.format('%.0f:%.0f', limit.cap, limit.estimate),
        string.format('%.0f', used), string.format('%.0f', reserved)}
end
local closed_until, why = read_closed()
local text = closed_until and string.format('%.0f', closed_until) or ''
return {string.format('%.0f', now), text, why, shown}
"""
)
